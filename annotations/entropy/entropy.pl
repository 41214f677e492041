#!/usr/bin/perl
# Shannon's experiment: how uncertain is the next letter when the last ones are known?
#
# The conditional entropy H(order) falls with the order, until the text is too short to tell.
#
#ZEN$ PARAM text = { GLOB("texts/*.txt") }
#ZEN$ PARAM order = { 0:4 }
#ZEN$ CONSTRAINT VALUE order <= 3 or match(basename(text), "^(english|german).*")
#ZEN$ RUN "perl entropy.pl {order} {text}"
#ZEN$ METRIC entropy FROM stdout REGEX "H = (\S+) bits" UNIT "bit"
#ZEN$ METRIC contexts FROM stdout REGEX "after (\d+) contexts"
#ZEN$ METRIC length FROM stderr REGEX "(\d+) letters"
#ZEN$ METRIC redundancy := 1 - entropy / log2(27)
#ZEN$ OBJECTIVE MINIMIZE entropy
use strict;
use warnings;
use open qw(:std :encoding(UTF-8));

#ZEN$ SUBSTITUTE fold = { fold, keep } AS letters BEGIN
my $case = 'fold';
#ZEN$ END

my ($order, $file) = @ARGV;
$order //= 2;
$file  //= 'texts/english.txt';

open my $in, '<', $file or die "$file: $!\n";
my $text = do { local $/; <$in> };
close $in;

$text = lc $text if $case eq 'fold';
$text =~ s/[^\p{L}]+/ /g;
printf STDERR "%s: %d letters\n", $file, length $text;

# How often does each letter come after each run of $order letters?
my (%next, %seen);
for my $i ($order .. length($text) - 1) {
    my $context = substr $text, $i - $order, $order;
    $next{$context}{substr $text, $i, 1}++;
    $seen{$context}++;
}

my ($entropy, $total) = (0, length($text) - $order);
for my $context (keys %next) {
    for my $count (values %{ $next{$context} }) {
        $entropy -= $count / $total * log($count / $seen{$context}) / log(2);
    }
}

printf "H = %.4f bits after %d contexts of %d letters\n", $entropy, scalar keys %seen, $order;
