"""Environments that run elsewhere: a Channel carries requests to a Host and returns its replies.

messages        requests and replies, and their limits      host            holds environments, answers requests
values          values as plain data                        worker          the loop of a worker process
codec           messages to frames and back                 launch          starts a worker process
frames          frames on a socket                          factories       pickles code for a worker, and only there
block           shared memory for steps                     failures        errors on the wire
channel         what every channel does                     client          HostedEnv, the environment's near half
process_channel to a worker process                         judge           what a client believes of a reply
remote_channel  to a server, over a websocket               untrusted       checks of values that are not trusted
remote_session  the client's half of a remote session       remote_address  URLs, and why a connection failed
openenv/        OpenEnv's wire and client                   mcp             MCP's messages
websocket/      the client's end of a websocket             private_loop    coroutines for blocking code
"""
