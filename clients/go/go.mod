module tidemark

go 1.19
