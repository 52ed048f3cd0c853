#!/usr/bin/perl
# A worker that is not Python: the environment `Counting` of envs.py behind the protocol of docs/wire.md, on the socket
# whose descriptor is the argument. It reads only what such requests hold, and needs nothing but perl itself.
use strict;
use warnings;

my $MODULUS = 2**31;
my %RULES = (make => \&make, reset => \&begin, step => \&step_each, 'step rows' => \&step_rows, state => \&state, call => \&attribute,
    close => \&end, render => \&unsupported, snapshot => \&unsupported, restore => \&unsupported);
my %envs;    # number => {goal, count, draw, steps, episode, phase}

open(my $socket, '+<&=', $ARGV[0]) or die "no socket: $!";
while (defined(my $prefix = taken(20))) {
    my ($magic, $head_bytes, $number, $body_bytes) = unpack('a4 V V Q<', $prefix);
    die "not a frame\n" if $magic ne 'PDK1';
    my ($head, $body) = (taken($head_bytes), taken($body_bytes));
    my $at = 0;
    my $request = value(\$head, \$at);
    my $rule = $RULES{$request->{type}} || \&unsupported;
    my $answer = eval { $rule->($request, $body) };
    my $reply = defined $answer && $request->{type} eq 'step rows'
        ? [dict(type => text('rows'), notes => $answer->[0], rows => int64(length $answer->[1])), $answer->[1]]
        : defined $answer
        ? [dict(type => text('done'), value => $answer->[0]), $answer->[1]]
        : [dict(type => text('failed'), failure($@)), ''];
    give(pack('a4 V V Q<', 'PDK1', length $reply->[0], $number, length $reply->[1]), @$reply);
    last if $request->{type} eq 'close' && !defined $request->{env};
}

# --- the environment: each rule returns [msgpack of the value, body] or dies with [code, message, class] ---

sub make {
    my ($request) = @_;
    my $goal = $request->{what}{goal} // 5;
    $envs{$request->{env}} = {goal => $goal, count => 0, draw => 1, steps => 0, episode => 0, phase => 'new'};
    return [dict(
        observation_space => text('{"paddock":1,"type":"Box","low":0,"high":2147483648,"shape":[2],"dtype":"int64"}'),
        action_space => text('{"paddock":1,"type":"Discrete","n":4,"start":0,"dtype":"int64"}'),
        metadata => dict(language => text('Perl')),
        rows => truth(1),
    ), ''];
}

sub begin {
    my $env = env($_[0]{env});
    $env->{draw} = $_[0]{seed} % $MODULUS if defined $_[0]{seed};
    @$env{qw(count steps phase)} = (0, 0, 'running');
    $env->{episode}++;
    advance($env);
    return [list(observation(0), dict(draw => int64($env->{draw}))), seen($env)];
}

sub step_each {
    my ($request) = @_;
    my ($body, @results) = ('');
    for my $place (0 .. $#{$request->{envs}}) {
        my $result = eval { step(env($request->{envs}[$place]), $request->{actions}[$place], length $body) };
        push @results, $result ? $result->[0] : dict('$' => text('failed'), failure($@));
        $body .= $result->[1] if $result;
    }
    return [list(@results), $body];
}

# The same as rows: the action is an int64, the results a double, two flags, and two int64 after six bytes of padding.
sub step_rows {
    my ($request, $body) = @_;
    my $env = env(0);
    my ($reward, $over, $info) = move($env, unpack('q<', $body));
    return [list(list(int64(0), $info)), pack('d< C C x6', $reward, $over, 0) . seen($env)];
}

sub step {
    my ($env, $action, $offset) = @_;
    $action = unpack('q<', $action->{data}) if ref $action eq 'HASH';    # a NumPy integer
    my ($reward, $over, $info) = move($env, $action);
    return [list(observation($offset), float64($reward), truth($over), truth(0), $info), seen($env)];
}

sub move {
    my ($env, $action) = @_;
    die ['RESET_NEEDED', "Cannot step $env->{phase}.", 'ResetNeeded'] if $env->{phase} ne 'running';
    die ['INVALID_ACTION', "action $action is outside Discrete(4).", 'InvalidAction'] if $action < 0 || $action > 3;
    die ['ENV_FAILED', 'three is not counted', 'ValueError'] if $action == 3;
    $env->{count} += $action;
    $env->{steps}++;
    advance($env);
    my $over = $env->{count} >= $env->{goal} ? 1 : 0;
    $env->{phase} = 'ended' if $over;
    return ($action * 0.5, $over, dict(draw => int64($env->{draw})));
}

sub state {
    my $env = env($_[0]{env});
    my $name = $env->{phase} eq 'new' ? "\xc0" : text("episode-$env->{episode}");
    return [list($name, int64($env->{steps}), dict(count => int64($env->{count}))), ''];
}

sub attribute {
    my ($request) = @_;
    my ($env, $name, $how) = (env($request->{env}), $request->{name}, $request->{how} // 'call');
    my $kind = $name eq 'twice' ? 'callable' : exists $env->{$name} ? 'value' : '';
    return [text($kind), ''] if $how eq 'has';
    if ($how eq 'set') { $env->{$name} = $request->{args}[0]; return [truth(1), '']; }
    die ['ENV_FAILED', "no attribute $name", 'AttributeError'] if !$kind;
    return [int64($name eq 'twice' ? 2 * $request->{args}[0] : $env->{$name}), ''];
}

sub end {
    my ($request) = @_;
    if (defined $request->{env}) { delete $envs{$request->{env}} } else { %envs = () }
    return ["\xc0", ''];
}

sub unsupported { die ['SNAPSHOT_UNSUPPORTED', "this worker has no $_[0]{type}.", 'SnapshotUnsupported'] }
sub env { return $envs{$_[0]} // die ['CLOSED', "no environment $_[0].", 'ClosedEnvironmentError'] }
sub advance { $_[0]{draw} = ($_[0]{draw} * 1103515245 + 12345) % $MODULUS; return }
sub seen { return pack('q< q<', $_[0]{count}, $_[0]{draw}) }
sub observation {
    return dict('$' => text('array'), dtype => text('<i8'), shape => list(int64(2)), offset => int64($_[0]));
}

sub failure {
    my ($code, $message, $class) = ref $_[0] ? @{$_[0]} : ('ENV_FAILED', "$_[0]", 'PerlError');
    return (code => text($code), message => text($message), error_type => text($class), trace => text(''));
}

# --- msgpack, what is needed of it ---

sub text { return pack('C N a*', 0xdb, length $_[0], $_[0]) }
sub int64 { return pack('C q>', 0xd3, $_[0]) }
sub float64 { return pack('C d>', 0xcb, $_[0]) }
sub truth { return $_[0] ? "\xc3" : "\xc2" }
sub list { return pack('C N a*', 0xdd, scalar @_, join '', @_) }

sub dict {
    my @parts = @_;
    return pack('C N', 0xdf, @parts / 2) . join '', map { $_ % 2 ? $parts[$_] : text($parts[$_]) } 0 .. $#parts;
}

sub value {
    my ($data, $at) = @_;
    my $kind = ord substr($$data, $$at++, 1);
    return $kind if $kind <= 0x7f;
    return $kind - 256 if $kind >= 0xe0;
    return undef if $kind == 0xc0;
    return $kind - 0xc2 if $kind == 0xc2 || $kind == 0xc3;
    return piece($data, $at, $kind & 31) if ($kind & 0xe0) == 0xa0;
    return pairs($data, $at, $kind & 15) if ($kind & 0xf0) == 0x80;
    return items($data, $at, $kind & 15) if ($kind & 0xf0) == 0x90;
    my %number = (0xca => 'f>', 0xcb => 'd>', 0xcc => 'C', 0xcd => 'n', 0xce => 'N', 0xcf => 'Q>', 0xd0 => 'c',
        0xd1 => 's>', 0xd2 => 'l>', 0xd3 => 'q>');
    return numeral($data, $at, $number{$kind}) if $number{$kind};
    my %sized = (0xc4 => [\&piece, 'C'], 0xc5 => [\&piece, 'n'], 0xc6 => [\&piece, 'N'], 0xd9 => [\&piece, 'C'],
        0xda => [\&piece, 'n'], 0xdb => [\&piece, 'N'], 0xdc => [\&items, 'n'], 0xdd => [\&items, 'N'],
        0xde => [\&pairs, 'n'], 0xdf => [\&pairs, 'N']);
    my $sized = $sized{$kind} or die ['BAD_FRAME', "kind $kind", 'BadFrame'];
    return $sized->[0]->($data, $at, numeral($data, $at, $sized->[1]));
}

sub numeral { my ($data, $at, $form) = @_; return unpack($form, piece($data, $at, length pack($form, 0))) }
sub piece { my ($data, $at, $size) = @_; $$at += $size; return substr($$data, $$at - $size, $size) }
sub items { my ($data, $at, $count) = @_; return [map { scalar value($data, $at) } 1 .. $count] }

sub pairs {
    my ($data, $at, $count) = @_;
    my %found;
    for (1 .. $count) { my $key = value($data, $at); $found{$key} = value($data, $at) }
    return \%found;
}

# --- the socket ---

sub taken {
    my ($size) = @_;
    my $data = '';
    while (length $data < $size) {
        my $count = sysread($socket, $data, $size - length $data, length $data);
        return undef if !$count;
    }
    return $data;
}

sub give {
    my $data = join '', @_;
    while (length $data) {
        my $count = syswrite($socket, $data) or die "nobody reads\n";
        substr($data, 0, $count, '');
    }
    return;
}
