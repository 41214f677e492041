# Does the word count of a text depend on how its words are separated?
#ZEN$ SUBSTITUTE 100 = { 10:1000:*10 } AS words TYPE int
#ZEN$ PARAM separator = { space, newline }
#ZEN$ RUN "make -s -f first.mk SEPARATOR={separator}" TIMEOUT 30s
#ZEN$ METRIC counted FROM stdout REGEX "counted (\d+)"
WORDS = 100
SEPARATOR = space
TURN = $(if $(filter newline,$(SEPARATOR)),cat,tr '\n' ' ')

count:
	@echo counted $$(seq $(WORDS) | $(TURN) | wc -w)
