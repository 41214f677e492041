CREATE TABLE aliases (
	digest BLOB NOT NULL,
	result INTEGER NOT NULL,
	kind TEXT NOT NULL,
	PRIMARY KEY (digest, result)
);

CREATE TABLE artifacts (
	attempt INTEGER NOT NULL,
	path TEXT NOT NULL,
	number INTEGER NOT NULL,
	mode INTEGER NOT NULL,
	size INTEGER NOT NULL,
	content BLOB NOT NULL,
	PRIMARY KEY (attempt, path)
);

CREATE INDEX artifacts_content ON artifacts (content);

CREATE TABLE attempts (
	id INTEGER NOT NULL,
	digest BLOB NOT NULL,
	version INTEGER NOT NULL,
	round INTEGER NOT NULL,
	machine INTEGER NOT NULL,
	number INTEGER NOT NULL,
	lease INTEGER NOT NULL,
	state TEXT NOT NULL,
	host INTEGER NOT NULL,
	started DOUBLE,
	ended DOUBLE,
	exit INTEGER,
	cause TEXT,
	position BLOB NOT NULL,
	repeat INTEGER NOT NULL,
	point TEXT,
	metrics TEXT,
	PRIMARY KEY (id)
);

CREATE INDEX attempts_digest ON attempts (digest);

CREATE INDEX attempts_version ON attempts (version);

CREATE TABLE chunks (
	result INTEGER NOT NULL,
	chunk INTEGER NOT NULL,
	doc TEXT NOT NULL,
	PRIMARY KEY (result, chunk)
);

CREATE TABLE claims (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	digest BLOB NOT NULL,
	round INTEGER NOT NULL,
	target INTEGER NOT NULL,
	version INTEGER NOT NULL,
	lease INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	host TEXT NOT NULL,
	started DOUBLE NOT NULL,
	position BLOB NOT NULL,
	repeat INTEGER NOT NULL,
	point TEXT,
	UNIQUE (digest, round, target)
);

CREATE INDEX claims_lease ON claims (lease);

CREATE TABLE conditions (
	attempt INTEGER NOT NULL,
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
	digest BLOB NOT NULL,
	size INTEGER NOT NULL,
	body BLOB,
	foreign_path TEXT,
	PRIMARY KEY (digest)
);

CREATE TABLE copies (
	result INTEGER NOT NULL,
	source INTEGER NOT NULL,
	kind TEXT NOT NULL,
	person TEXT NOT NULL,
	at DOUBLE NOT NULL,
	note TEXT NOT NULL,
	PRIMARY KEY (result)
);

CREATE INDEX copies_source ON copies (source);

CREATE TABLE counters (
	version INTEGER NOT NULL,
	machine INTEGER NOT NULL,
	round INTEGER NOT NULL,
	status TEXT NOT NULL,
	count INTEGER NOT NULL,
	PRIMARY KEY (version, machine, round, status)
);

CREATE TABLE definitions (
	id INTEGER NOT NULL,
	version INTEGER NOT NULL,
	at DOUBLE NOT NULL,
	document TEXT NOT NULL,
	PRIMARY KEY (id)
);

CREATE INDEX definitions_version ON definitions (version, id);

CREATE TABLE edits (
	version INTEGER NOT NULL,
	number INTEGER NOT NULL,
	first INTEGER NOT NULL,
	last INTEGER NOT NULL,
	PRIMARY KEY (version, number)
);

CREATE TABLE events (
	id INTEGER NOT NULL,
	version INTEGER NOT NULL,
	digest BLOB,
	at DOUBLE NOT NULL,
	kind TEXT NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY (id)
);

CREATE INDEX events_digest ON events (digest);

CREATE INDEX events_version ON events (version);

CREATE TABLE fields (
	study INTEGER NOT NULL,
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
	id INTEGER NOT NULL,
	name TEXT NOT NULL,
	machine INTEGER NOT NULL,
	kernel TEXT NOT NULL,
	memory INTEGER NOT NULL,
	unmeasured TEXT,
	PRIMARY KEY (id),
	UNIQUE (name, machine, kernel, memory)
);

CREATE TABLE leases (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	version INTEGER NOT NULL,
	token TEXT NOT NULL,
	host TEXT NOT NULL,
	pid INTEGER NOT NULL,
	born TEXT NOT NULL,
	person TEXT NOT NULL,
	since DOUBLE NOT NULL,
	until DOUBLE NOT NULL,
	seconds DOUBLE NOT NULL,
	ended DOUBLE
);

CREATE INDEX leases_version ON leases (version);

CREATE TABLE logs (
	attempt INTEGER NOT NULL,
	stdout_head BLOB NOT NULL,
	stdout_tail BLOB NOT NULL,
	stdout_size INTEGER NOT NULL,
	stderr_head BLOB NOT NULL,
	stderr_tail BLOB NOT NULL,
	stderr_size INTEGER NOT NULL,
	PRIMARY KEY (attempt)
);

CREATE TABLE machines (
	id INTEGER NOT NULL,
	digest BLOB NOT NULL,
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
	id INTEGER NOT NULL,
	uuid TEXT NOT NULL,
	owner TEXT NOT NULL,
	name TEXT NOT NULL,
	created DOUBLE NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (uuid),
	UNIQUE (owner, name)
);

CREATE TABLE recipes (
	id INTEGER NOT NULL,
	version INTEGER NOT NULL,
	format INTEGER NOT NULL,
	document TEXT NOT NULL,
	PRIMARY KEY (id)
);

CREATE INDEX recipes_version ON recipes (version);

CREATE TABLE results (
	id INTEGER NOT NULL,
	version INTEGER NOT NULL,
	recipe INTEGER,
	digest BLOB NOT NULL,
	position BLOB NOT NULL,
	repeat INTEGER NOT NULL,
	round INTEGER NOT NULL,
	machine INTEGER NOT NULL,
	newest SMALLINT NOT NULL,
	status TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	lease INTEGER NOT NULL,
	host INTEGER NOT NULL,
	started DOUBLE NOT NULL,
	ended DOUBLE NOT NULL,
	exit INTEGER,
	cause TEXT,
	remarks TEXT,
	v0 ,
	v1 ,
	v2 ,
	v3 ,
	v4 ,
	v5 ,
	v6 ,
	v7 ,
	v8 ,
	v9 ,
	v10 ,
	v11 ,
	v12 ,
	v13 ,
	v14 ,
	v15 ,
	v16 ,
	v17 ,
	v18 ,
	v19 ,
	v20 ,
	v21 ,
	v22 ,
	v23 ,
	v24 ,
	v25 ,
	v26 ,
	v27 ,
	v28 ,
	v29 ,
	v30 ,
	v31 ,
	"key" BLOB,
	PRIMARY KEY (id),
	UNIQUE (digest, version, round, machine)
);

CREATE INDEX results_order ON results (version, position, repeat, id);

CREATE INDEX results_version ON results (version);

CREATE TABLE rounds (
	version INTEGER NOT NULL,
	number INTEGER NOT NULL,
	began DOUBLE NOT NULL,
	person TEXT NOT NULL,
	reason TEXT NOT NULL,
	seed TEXT,
	PRIMARY KEY (version, number)
);

CREATE TABLE sources (
	definition INTEGER NOT NULL,
	path TEXT NOT NULL,
	mode INTEGER NOT NULL,
	content BLOB NOT NULL,
	PRIMARY KEY (definition, path)
);

CREATE TABLE studies (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	project INTEGER NOT NULL,
	name TEXT NOT NULL,
	sql_name TEXT NOT NULL,
	current INTEGER,
	revision INTEGER NOT NULL,
	view_revision INTEGER,
	opened DOUBLE NOT NULL,
	pinned SMALLINT NOT NULL,
	UNIQUE (sql_name),
	UNIQUE (project, name)
);

CREATE TABLE submissions (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	token TEXT NOT NULL,
	person TEXT NOT NULL,
	verified SMALLINT NOT NULL,
	study TEXT NOT NULL,
	request TEXT NOT NULL,
	submitted DOUBLE NOT NULL,
	turn TEXT NOT NULL,
	begun DOUBLE,
	ended DOUBLE,
	cause TEXT NOT NULL,
	progress TEXT NOT NULL,
	UNIQUE (token)
);

CREATE TABLE upgrade (
	step TEXT NOT NULL,
	done INTEGER NOT NULL,
	at DOUBLE NOT NULL,
	PRIMARY KEY (step)
);

CREATE TABLE versions (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	study INTEGER NOT NULL,
	number INTEGER NOT NULL,
	created DOUBLE NOT NULL,
	edits INTEGER NOT NULL,
	members TEXT NOT NULL,
	UNIQUE (study, number)
);
