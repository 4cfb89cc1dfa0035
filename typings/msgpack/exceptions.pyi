"""The exceptions of msgpack. What it cannot read it tells by these or by a ValueError."""

class UnpackException(Exception): ...
class BufferFull(UnpackException): ...
class OutOfData(UnpackException): ...
class FormatError(ValueError, UnpackException): ...
class StackError(ValueError, UnpackException): ...

UnpackValueError = ValueError

class ExtraData(UnpackValueError):
    unpacked: object
    extra: bytes

PackException = Exception
PackValueError = ValueError
PackOverflowError = OverflowError
