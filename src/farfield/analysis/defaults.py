"""Defaults that both the command line and the interface state, apart from what is slow to import."""

# The carrier-only logit at the target, m_Q^T R_{-K} m_K / sqrt(d), of heads trained on fixed offsets; measured
# values are in docs/reproduction.md, "Worth knowing".
LOGIT_SCALE = 8.0
# The context before stretching of Llama 3; a training length that is given takes its place.
TRAINED = 8192
