"""The rules for environments that others are to trust, as data. They are advice to authors: the wall is what enforces.

All are warnings, because reading source can't tell for sure; ``paddock check --strict`` fails on them. As with the
other rules, a code keeps its meaning for good.
"""

from __future__ import annotations

from paddock.testing.rules import Rule

SECURE_RULES: tuple[Rule, ...] = (
    Rule(
        *("SEC001", "import-effects", "warning"),
        meaning="Importing the module already opens files, reaches the network, or starts processes or threads.",
        fix="Move it into `__init__` or `reset`. An import should define things and do nothing.",
    ),
    Rule(
        *("SEC002", "starts-processes", "warning"),
        meaning="The environment starts processes itself. Behind the wall that is denied.",
        fix="Ask the host for a workspace and declare `workspaces` with what each may do.",
    ),
    Rule(
        *("SEC003", "runs-data", "warning"),
        meaning="Data is run as code: `eval`, `exec`, `pickle`, `marshal`, `np.load(allow_pickle=True)`, `torch.load`.",
        fix="Read JSON, TOML or plain arrays; `ast.literal_eval` for literals; run an agent's code in a workspace.",
    ),
    Rule(
        *("SEC004", "native-code", "warning"),
        meaning="Machine code is called by address or by hand (`ctypes`, `cffi`): one wrong pointer ends the worker.",
        fix="Use a library with a Python interface, or a kernel that paddock compiles.",
    ),
    Rule(
        *("SEC005", "undeclared-network", "warning"),
        meaning="The code uses the network, and `hosts` does not name what it reaches.",
        fix="Declare each as `hosts = ['name:port']`, or ship the data with the package.",
    ),
    Rule(
        *("SEC006", "no-timeout", "warning"),
        meaning="A call over the network has no timeout, so the far end decides how long a step takes.",
        fix="Pass `timeout=`, shorter than the time that a call may take (`call_s`).",
    ),
    Rule(
        *("SEC007", "hidden-input", "warning"),
        meaning="Results depend on more than seed and actions: a clock, `random`, `numpy.random`, `uuid4`, `urandom`.",
        fix="Draw from `self.np_random` and count steps instead of seconds; or declare `deterministic = false`.",
    ),
    Rule(
        *("SEC008", "writes-elsewhere", "warning"),
        meaning="A file is written outside the scratch folder, which is all that may be written by default.",
        fix="Use `tempfile`, whose folder is the scratch, or declare the path in `write`.",
    ),
    Rule(
        *("SEC009", "reads-elsewhere", "warning"),
        meaning="A file is read that lies outside the package, so it does not exist behind the wall or elsewhere.",
        fix="Ship it beside the module and use `Path(__file__).parent`, or declare the path in `read`.",
    ),
    Rule(
        *("SEC010", "environment-variables", "warning"),
        meaning="Environment variables are read or set. Behind the wall there are none but those in `variables`.",
        fix="Take it as an argument (`kwargs`), or declare the variable.",
    ),
    Rule(
        *("SEC011", "secret-in-source", "warning"),
        meaning="A password, key or token stands in the source or the manifest, where everyone can read it.",
        fix="Remove and revoke it. Who runs the environment passes one in `variables` of a Policy.",
    ),
    Rule(
        *("SEC012", "looks-around", "warning"),
        meaning="The code inspects frames, the garbage collector or loaded modules: the agent, or the grader.",
        fix="Use what `reset` and `step` are given.",
    ),
    Rule(
        *("SEC013", "changes-others", "warning"),
        meaning="The code changes modules that are not its own, or where Python looks for them.",
        fix="Subclass or wrap instead; write relative imports instead of changing `sys.path`.",
    ),
    Rule(
        *("SEC014", "waits", "warning"),
        meaning="The code waits: for a person (`input`) who is not there, or for time to pass (`sleep`).",
        fix="Compute the next state at once. A limit on speed belongs to whoever plays, not to the dynamics.",
    ),
    Rule(
        *("SEC015", "ends-process", "warning"),
        meaning="The code ends or signals processes, or takes over signals. Its worker may hold other lanes.",
        fix="Raise an exception for what can't go on, and return `terminated` for the end of an episode.",
    ),
    Rule(
        *("SEC020", "no-manifest", "warning"),
        meaning="The folder has no `paddock.toml`, so nobody can know what it needs before running it.",
        fix="Write one: name, version, environments, permissions.",
    ),
    Rule(
        *("SEC021", "permission-unused", "warning"),
        meaning="A permission is asked for that nothing in the source seems to use.",
        fix="Drop it: who runs the environment has to grant it.",
    ),
    Rule(
        *("SEC022", "permission-broad", "warning"),
        meaning="A permission is so broad that it says little: any host, a home, the system's folders, its own code.",
        fix="Name the hosts and folders that are needed, and keep code apart from data that is written.",
    ),
    Rule(
        *("SEC023", "unread-source", "warning"),
        meaning="Code could not be read by these rules: compiled, malformed, too large, or a link out of the folder.",
        fix="Ship Python source that parses; build compiled parts where they are installed.",
    ),
    Rule(
        *("SEC030", "reward-outside", "warning"),
        meaning="A reward lies outside the declared `reward_range`. Behind the wall this ends the environment.",
        fix="Declare the range that the rewards really have.",
    ),
    Rule(
        *("SEC031", "info-refused", "warning"),
        meaning="An info can't cross the wall: too large, too deep, or of types that are not plain data.",
        fix="Return a small dict of texts, numbers and arrays; raise `info_kb` if it must be large.",
    ),
    Rule(
        *("SEC032", "info-tells", "warning"),
        meaning="An info seems to hold the answer or hidden state. Agents see infos.",
        fix="Keep it out of `info`; let the environment's own reward use it.",
    ),
)

SECURE_RULE: dict[str, Rule] = {rule.name: rule for rule in SECURE_RULES}


def as_markdown() -> str:
    """The table in docs/secure-environments.md."""
    lines = ["| code | rule | what is wrong | how to fix it |", "|---|---|---|---|"]
    lines += [f"| {rule.code} | {rule.name} | {rule.meaning} | {rule.fix} |" for rule in SECURE_RULES]
    return "\n".join(lines) + "\n"
