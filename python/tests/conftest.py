"""What all tests need of their process."""

import signal

# A shell ignores Ctrl-C for what it starts in the background, and so would the processes of tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
