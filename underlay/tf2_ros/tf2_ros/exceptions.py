# SPDX-License-Identifier: Apache-2.0
"""What a look-up may raise."""


class TransformException(Exception):
    """Base of the others."""


class LookupException(TransformException):
    """A frame has never been heard of."""


class ConnectivityException(TransformException):
    """Two frames are not in one tree."""


class ExtrapolationException(TransformException):
    """The time lies outside what a frame's cache holds."""


class InvalidArgumentException(TransformException):
    """A frame name is empty or starts with a slash."""


class TimeoutException(TransformException):
    """A wait ended without an answer."""
