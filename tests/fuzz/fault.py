"""What counts as a fault, and what as a refusal that a user understands."""

import re

#: What a wrong argument may raise.
REFUSALS = (ValueError, TypeError, FileNotFoundError, IsADirectoryError, KeyError)
#: Words of other libraries and of the interpreter, which name no argument.
_FOREIGN = re.compile(
    "array element|inhomogeneous|reshape|math domain|broadcast|ufunc|not supported between|has no attribute|"
    "not iterable|unsupported operand|out of range|out of bounds|subscriptable|has no len|unpack|unhashable|"
    "invalid literal|could not convert|positional argument|zero-size|cannot convert|is not callable|NoneType"
)


class Fault(Exception):
    """Something that must hold does not."""


def check(holds, what):
    """Raise a fault unless something holds."""
    if not holds:
        raise Fault(what)


def check_refusal(error):
    """Raise a fault unless the message of an error is ours: one line, short, and about an argument."""
    text = str(error)
    check(text.strip(), f"{type(error).__name__} without a message")
    check(len(text) < 3000, f"a message of {len(text)} characters: {text[:80]}")
    check("\x1b" not in text, f"an escape sequence in a message: {text!r}")
    check(not _FOREIGN.search(text), f"words of another library: {type(error).__name__}: {text[:200]}")
