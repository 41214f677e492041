CREATE TABLE aliases (
	digest BYTEA NOT NULL,
	result BIGINT NOT NULL,
	kind TEXT NOT NULL,
	PRIMARY KEY (digest, result)
);

CREATE TABLE artifacts (
	attempt BIGINT NOT NULL,
	path TEXT NOT NULL,
	number INTEGER NOT NULL,
	mode INTEGER NOT NULL,
	size BIGINT NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (attempt, path)
);

CREATE INDEX artifacts_content ON artifacts (content);

CREATE TABLE attempts (
	id BIGINT NOT NULL,
	digest BYTEA NOT NULL,
	version BIGINT NOT NULL,
	round INTEGER NOT NULL,
	machine BIGINT NOT NULL,
	number INTEGER NOT NULL,
	lease BIGINT NOT NULL,
	state TEXT NOT NULL,
	host BIGINT NOT NULL,
	started DOUBLE PRECISION,
	ended DOUBLE PRECISION,
	exit INTEGER,
	cause TEXT,
	position NUMERIC NOT NULL,
	repeat INTEGER NOT NULL,
	point TEXT,
	metrics TEXT,
	PRIMARY KEY (id)
);

CREATE INDEX attempts_digest ON attempts (digest);

CREATE INDEX attempts_version ON attempts (version);

CREATE TABLE chunks (
	result BIGINT NOT NULL,
	chunk INTEGER NOT NULL,
	doc JSON NOT NULL,
	PRIMARY KEY (result, chunk)
);

CREATE TABLE claims (
	id BIGSERIAL NOT NULL,
	digest BYTEA NOT NULL,
	round INTEGER NOT NULL,
	target BIGINT NOT NULL,
	version BIGINT NOT NULL,
	lease BIGINT NOT NULL,
	attempt INTEGER NOT NULL,
	host TEXT NOT NULL,
	started DOUBLE PRECISION NOT NULL,
	position NUMERIC NOT NULL,
	repeat INTEGER NOT NULL,
	point TEXT,
	PRIMARY KEY (id),
	UNIQUE (digest, round, target)
);

CREATE INDEX claims_lease ON claims (lease);

CREATE TABLE conditions (
	attempt BIGINT NOT NULL,
	load_start REAL,
	load_end REAL,
	mhz_start REAL,
	mhz_end REAL,
	celsius_start REAL,
	celsius_end REAL,
	steal REAL,
	pressure REAL,
	slots INTEGER,
	cpus INTEGER,
	governor TEXT,
	other TEXT,
	run_order TEXT,
	run_block BIGINT,
	run_turn BIGINT,
	runnable BIGINT,
	run_delay REAL,
	others_ctime REAL,
	memory_pressure REAL,
	throttled BIGINT,
	slots_start INTEGER,
	slots_end INTEGER,
	pinned TEXT,
	gpu_mhz_start REAL,
	gpu_mhz_end REAL,
	PRIMARY KEY (attempt)
);

CREATE TABLE contents (
	digest BYTEA NOT NULL,
	size BIGINT NOT NULL,
	body BYTEA,
	foreign_path TEXT,
	PRIMARY KEY (digest)
);

CREATE TABLE copies (
	result BIGINT NOT NULL,
	source BIGINT NOT NULL,
	kind TEXT NOT NULL,
	person TEXT NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	note TEXT NOT NULL,
	PRIMARY KEY (result)
);

CREATE INDEX copies_source ON copies (source);

CREATE TABLE counters (
	version BIGINT NOT NULL,
	machine BIGINT NOT NULL,
	round INTEGER NOT NULL,
	status TEXT NOT NULL,
	count BIGINT NOT NULL,
	PRIMARY KEY (version, machine, round, status)
);

CREATE TABLE definitions (
	id BIGSERIAL NOT NULL,
	version BIGINT NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	document TEXT NOT NULL,
	PRIMARY KEY (id)
);

CREATE INDEX definitions_version ON definitions (version, id);

CREATE TABLE edits (
	version BIGINT NOT NULL,
	number BIGINT NOT NULL,
	first BIGINT NOT NULL,
	last BIGINT NOT NULL,
	PRIMARY KEY (version, number)
);

CREATE TABLE events (
	id BIGSERIAL NOT NULL,
	version BIGINT NOT NULL,
	digest BYTEA,
	at DOUBLE PRECISION NOT NULL,
	kind TEXT NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY (id)
);

CREATE INDEX events_digest ON events (digest);

CREATE INDEX events_version ON events (version);

CREATE TABLE fields (
	study BIGINT NOT NULL,
	number INTEGER NOT NULL,
	role TEXT NOT NULL,
	name TEXT NOT NULL,
	sql_name TEXT NOT NULL,
	place TEXT NOT NULL,
	forms SMALLINT NOT NULL,
	type TEXT,
	unit TEXT NOT NULL,
	kind TEXT NOT NULL,
	exact SMALLINT NOT NULL,
	PRIMARY KEY (study, number),
	UNIQUE (study, role, name)
);

CREATE TABLE hosts (
	id BIGSERIAL NOT NULL,
	name TEXT NOT NULL,
	machine BIGINT NOT NULL,
	kernel TEXT NOT NULL,
	memory BIGINT NOT NULL,
	unmeasured TEXT,
	PRIMARY KEY (id),
	UNIQUE (name, machine, kernel, memory)
);

CREATE TABLE leases (
	id BIGSERIAL NOT NULL,
	version BIGINT NOT NULL,
	token TEXT NOT NULL,
	host TEXT NOT NULL,
	pid BIGINT NOT NULL,
	born TEXT NOT NULL,
	person TEXT NOT NULL,
	since DOUBLE PRECISION NOT NULL,
	until DOUBLE PRECISION NOT NULL,
	seconds DOUBLE PRECISION NOT NULL,
	ended DOUBLE PRECISION,
	PRIMARY KEY (id)
);

CREATE INDEX leases_version ON leases (version);

CREATE TABLE logs (
	attempt BIGINT NOT NULL,
	stdout_head BYTEA NOT NULL,
	stdout_tail BYTEA NOT NULL,
	stdout_size BIGINT NOT NULL,
	stderr_head BYTEA NOT NULL,
	stderr_tail BYTEA NOT NULL,
	stderr_size BIGINT NOT NULL,
	PRIMARY KEY (attempt)
);

CREATE TABLE machines (
	id BIGSERIAL NOT NULL,
	digest BYTEA NOT NULL,
	label TEXT NOT NULL,
	cpu TEXT NOT NULL,
	cores INTEGER NOT NULL,
	accelerators TEXT NOT NULL,
	setup TEXT NOT NULL,
	assumed SMALLINT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (digest)
);

CREATE TABLE projects (
	id BIGSERIAL NOT NULL,
	uuid TEXT NOT NULL,
	owner TEXT NOT NULL,
	name TEXT NOT NULL,
	created DOUBLE PRECISION NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (uuid),
	UNIQUE (owner, name)
);

CREATE TABLE recipes (
	id BIGSERIAL NOT NULL,
	version BIGINT NOT NULL,
	format INTEGER NOT NULL,
	document TEXT NOT NULL,
	PRIMARY KEY (id)
);

CREATE INDEX recipes_version ON recipes (version);

CREATE TABLE results (
	id BIGINT NOT NULL,
	version BIGINT NOT NULL,
	recipe BIGINT,
	digest BYTEA NOT NULL,
	position NUMERIC NOT NULL,
	repeat INTEGER NOT NULL,
	round INTEGER NOT NULL,
	machine BIGINT NOT NULL,
	newest SMALLINT NOT NULL,
	status TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	lease BIGINT NOT NULL,
	host BIGINT NOT NULL,
	started DOUBLE PRECISION NOT NULL,
	ended DOUBLE PRECISION NOT NULL,
	exit INTEGER,
	cause TEXT,
	remarks TEXT,
	i0 BIGINT,
	i1 BIGINT,
	i2 BIGINT,
	i3 BIGINT,
	i4 BIGINT,
	i5 BIGINT,
	i6 BIGINT,
	i7 BIGINT,
	i8 BIGINT,
	i9 BIGINT,
	i10 BIGINT,
	i11 BIGINT,
	i12 BIGINT,
	i13 BIGINT,
	i14 BIGINT,
	i15 BIGINT,
	r0 DOUBLE PRECISION,
	r1 DOUBLE PRECISION,
	r2 DOUBLE PRECISION,
	r3 DOUBLE PRECISION,
	r4 DOUBLE PRECISION,
	r5 DOUBLE PRECISION,
	r6 DOUBLE PRECISION,
	r7 DOUBLE PRECISION,
	r8 DOUBLE PRECISION,
	r9 DOUBLE PRECISION,
	r10 DOUBLE PRECISION,
	r11 DOUBLE PRECISION,
	r12 DOUBLE PRECISION,
	r13 DOUBLE PRECISION,
	r14 DOUBLE PRECISION,
	r15 DOUBLE PRECISION,
	r16 DOUBLE PRECISION,
	r17 DOUBLE PRECISION,
	r18 DOUBLE PRECISION,
	r19 DOUBLE PRECISION,
	r20 DOUBLE PRECISION,
	r21 DOUBLE PRECISION,
	r22 DOUBLE PRECISION,
	r23 DOUBLE PRECISION,
	t0 TEXT,
	t1 TEXT,
	t2 TEXT,
	t3 TEXT,
	t4 TEXT,
	t5 TEXT,
	t6 TEXT,
	t7 TEXT,
	t8 TEXT,
	t9 TEXT,
	t10 TEXT,
	t11 TEXT,
	key BYTEA,
	PRIMARY KEY (id),
	UNIQUE (digest, version, round, machine)
);

CREATE INDEX results_order ON results (version, position, repeat, id);

CREATE INDEX results_version ON results (version);

CREATE TABLE rounds (
	version BIGINT NOT NULL,
	number INTEGER NOT NULL,
	began DOUBLE PRECISION NOT NULL,
	person TEXT NOT NULL,
	reason TEXT NOT NULL,
	seed TEXT,
	PRIMARY KEY (version, number)
);

CREATE TABLE sources (
	definition BIGINT NOT NULL,
	path TEXT NOT NULL,
	mode INTEGER NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (definition, path)
);

CREATE TABLE studies (
	id BIGSERIAL NOT NULL,
	project BIGINT NOT NULL,
	name TEXT NOT NULL,
	sql_name TEXT NOT NULL,
	current BIGINT,
	revision INTEGER NOT NULL,
	view_revision INTEGER,
	opened DOUBLE PRECISION NOT NULL,
	pinned SMALLINT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (sql_name),
	UNIQUE (project, name)
);

CREATE TABLE submissions (
	id BIGSERIAL NOT NULL,
	token TEXT NOT NULL,
	person TEXT NOT NULL,
	verified SMALLINT NOT NULL,
	study TEXT NOT NULL,
	request TEXT NOT NULL,
	submitted DOUBLE PRECISION NOT NULL,
	turn TEXT NOT NULL,
	begun DOUBLE PRECISION,
	ended DOUBLE PRECISION,
	cause TEXT NOT NULL,
	progress TEXT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (token)
);

CREATE TABLE upgrade (
	step TEXT NOT NULL,
	done BIGINT NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	PRIMARY KEY (step)
);

CREATE TABLE versions (
	id BIGSERIAL NOT NULL,
	study BIGINT NOT NULL,
	number INTEGER NOT NULL,
	created DOUBLE PRECISION NOT NULL,
	edits BIGINT NOT NULL,
	members TEXT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (study, number)
);
