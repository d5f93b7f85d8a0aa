module increment

go 1.26

require gorgonia.org/cu v0.9.6
