"""The agentic environments that come with paddock: ``paddock/Echo``, ``paddock/Wordle`` and ``paddock/PythonCode``.

echo                say a word back: one step, for first tries of a trainer
wordle              the game of words; wordle_marks colours, wordle_words are its words
python_code         write programs; coding/ has the problems, the workspaces and the grading
"""
