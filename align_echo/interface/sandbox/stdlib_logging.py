"""Runs inside the sandbox after `stdlib.py`: the replacement for `logging`, for source that imports it.

Loggers, handlers and records are in `prelude.py`, since interface code gets a logger without an import. All names of
`logging.__all__` are here. Their effects outside of the interface (files, streams, threads) are left out.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from align_echo.interface.sandbox.prelude import (
        _ALIGN_LEVELS,
        _align_level,
        _align_logger_named,
        _align_root,
        _AlignHandler,
        _AlignLogger,
        _AlignRecord,
    )
    from align_echo.interface.sandbox.stdlib import _ALIGN_MODULES, _align_ignore, _AlignModule


# ---------------------------------------------------------------- logging


class _AlignFormatter:
    """A `logging.Formatter` of the style "%" or "{"; "$" is not filled in."""

    default_time_format = "%Y-%m-%d %H:%M:%S"
    default_msec_format = "%s,%03d"

    def __init__(self, fmt: Any = None, datefmt: Any = None, style: str = "%", *args: Any, **options: Any) -> None:
        self._fmt = fmt or ("{message}" if style == "{" else "%(message)s")
        self.datefmt = datefmt
        self.style = style

    def format(self, record: Any) -> str:
        values = {key: getattr(record, key) for key in _ALIGN_RECORDED if hasattr(record, key)}
        values["message"] = record.getMessage()
        text: str = self._fmt.format(**values) if self.style == "{" else self._fmt % values
        return text

    def formatTime(self, record: Any, datefmt: Any = None) -> str:
        return str(record.asctime)

    def formatMessage(self, record: Any) -> str:
        return self.format(record)

    def formatException(self, ei: Any) -> str:
        return "(no traceback in the sandbox)"

    def formatStack(self, stack_info: Any) -> Any:
        return stack_info

    def usesTime(self) -> bool:
        return "asctime" in self._fmt


_ALIGN_RECORDED = [
    "name", "levelno", "levelname", "msg", "args", "asctime", "pathname", "filename", "module", "funcName", "lineno",
    "created", "msecs", "relativeCreated", "thread", "threadName", "process", "processName",
]  # fmt: skip


class _AlignFilter:
    """A `logging.Filter`."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.nlen = len(name)

    def filter(self, record: Any) -> bool:
        return not self.name or (record.name + ".").startswith(self.name + ".")


class _AlignBufferingFormatter:
    """A `logging.BufferingFormatter`."""

    def __init__(self, linefmt: Any = None) -> None:
        self.linefmt = linefmt or _AlignFormatter()

    def formatHeader(self, records: Any) -> str:
        return ""

    def formatFooter(self, records: Any) -> str:
        return ""

    def format(self, records: Any) -> str:
        return "".join([self.linefmt.format(record) for record in records])


class _AlignAdapter:
    """A `logging.LoggerAdapter`."""

    def __init__(self, logger: Any, extra: Any = None, *args: Any, **options: Any) -> None:
        self.logger = logger
        self.extra = extra
        self.name = logger.name
        self.manager = logger.manager

    def process(self, msg: Any, kwargs: Any) -> Any:
        return msg, {**kwargs, "extra": self.extra}

    def log(self, level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
        msg, kwargs = self.process(msg, kwargs)
        self.logger.log(level, msg, *args, **kwargs)

    def debug(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self.log(10, msg, *args, **kwargs)

    def info(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self.log(20, msg, *args, **kwargs)

    def warning(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self.log(30, msg, *args, **kwargs)

    def warn(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self.log(30, msg, *args, **kwargs)

    def error(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self.log(40, msg, *args, **kwargs)

    def exception(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self.log(40, msg, *args, **kwargs)

    def critical(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        self.log(50, msg, *args, **kwargs)

    def isEnabledFor(self, level: Any) -> bool:
        return True

    def setLevel(self, level: Any) -> None:
        self.logger.setLevel(level)

    def getEffectiveLevel(self) -> Any:
        return self.logger.getEffectiveLevel()

    def hasHandlers(self) -> bool:
        return bool(self.logger.hasHandlers())


def _align_basic_config(**kwargs: Any) -> None:
    if kwargs.get("force"):
        _align_root.handlers.clear()
    if not _align_root.handlers:
        handlers = kwargs.get("handlers") or [_AlignHandler(kwargs.get("stream"))]
        formatter = _AlignFormatter(kwargs.get("format") or _ALIGN_BASIC_FORMAT, None, kwargs.get("style", "%"))
        for handler in handlers:
            if getattr(handler, "formatter", None) is None:
                handler.formatter = formatter
            _align_root.addHandler(handler)
        if kwargs.get("level") is not None:
            _align_root.setLevel(kwargs["level"])


def _align_level_name(level: Any) -> Any:
    if isinstance(level, str):
        return _align_level(level)
    return _ALIGN_LEVELS.get(level, "Level " + str(level))


def _align_add_level_name(level: int, levelName: str) -> None:
    _ALIGN_LEVELS[level] = levelName


def _align_level_names() -> dict[str, int]:
    return {**{_ALIGN_LEVELS[number]: number for number in _ALIGN_LEVELS}, "WARN": 30, "FATAL": 50}


def _align_make_record(dict: Any) -> Any:
    record = _AlignRecord("", 0, "", 0, "", (), None)
    for key in dict:
        setattr(record, key, dict[key])
    return record


def _align_record_factory() -> Any:
    return _AlignRecord


def _align_logger_class() -> Any:
    return _AlignLogger


def _align_handler_named(name: str) -> Any:
    return next((handler for handler in _align_root.handlers if handler.name == name), None)


def _align_handler_names() -> Any:
    return frozenset([handler.name for handler in _align_root.handlers if handler.name])


_ALIGN_BASIC_FORMAT = "%(levelname)s:%(name)s:%(message)s"
_ALIGN_MODULES["logging"] = _AlignModule("logging", {
    "NOTSET": 0, "DEBUG": 10, "INFO": 20, "WARNING": 30, "WARN": 30, "ERROR": 40, "CRITICAL": 50, "FATAL": 50,
    "BASIC_FORMAT": _ALIGN_BASIC_FORMAT, "raiseExceptions": False, "root": _align_root,
    "lastResort": _AlignHandler(), "Logger": _AlignLogger, "LoggerAdapter": _AlignAdapter, "LogRecord": _AlignRecord,
    "RootLogger": _AlignLogger, "Handler": _AlignHandler, "StreamHandler": _AlignHandler,
    "FileHandler": _AlignHandler, "NullHandler": _AlignHandler, "Formatter": _AlignFormatter,
    "BufferingFormatter": _AlignBufferingFormatter, "Filter": _AlignFilter, "getLogger": _align_logger_named,
    "getLoggerClass": _align_logger_class, "setLoggerClass": _align_ignore, "basicConfig": _align_basic_config,
    "disable": _align_ignore, "shutdown": _align_ignore, "captureWarnings": _align_ignore,
    "getLevelName": _align_level_name, "addLevelName": _align_add_level_name,
    "getLevelNamesMapping": _align_level_names, "makeLogRecord": _align_make_record,
    "getLogRecordFactory": _align_record_factory, "setLogRecordFactory": _align_ignore,
    "getHandlerByName": _align_handler_named, "getHandlerNames": _align_handler_names,
    "debug": _align_root.debug, "info": _align_root.info, "warning": _align_root.warning, "warn": _align_root.warn,
    "error": _align_root.error, "exception": _align_root.exception, "critical": _align_root.critical,
    "fatal": _align_root.fatal, "log": _align_root.log,
})  # fmt: skip
