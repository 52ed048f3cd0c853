"""The parts of PythonCode: its problems, and the workspaces that run an agent's code.

families            families of problems: functions that know the answers
workspace           runs a program behind a wall and reads its output, believing nothing
inside              the program in the workspace, which sees nothing else of paddock
"""
