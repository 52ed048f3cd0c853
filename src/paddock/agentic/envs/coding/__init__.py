"""What PythonCode is made of: families of problems, the programs that run an agent's code, and the grading.

family              Family: problems that differ in their parameters
numbers, texts, sequences, grids   the families
problems            every problem, divided among the splits; tasks with their hidden tests
permissions         what a workspace may do
inside              the program in the workspace; nothing else of paddock is to be seen there
running             starts it, and reads what it says, believing nothing
grading             compares answers with what was expected
"""
