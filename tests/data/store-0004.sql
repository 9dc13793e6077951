PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE pearl_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT pearl_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO pearl_version VALUES('0004');
CREATE TABLE runs (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	started FLOAT NOT NULL, 
	seen FLOAT NOT NULL, 
	ended FLOAT, 
	head TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO runs VALUES('20261122-001251-3bea83','ask','','','',1795306371.3380348682,1795306386.145181179,1795306386.191139698,'{"question": "Why does Mara leave the lighthouse?", "document": "story.txt (371 characters, sha256 2548bbbb61791a99f4daeeb5c709fa67baa5f830728014e3c95144461d6d73be)", "library": "core, quality", "model": "offline", "pearl": "0.1.0"}');
INSERT INTO runs VALUES('20261122-001321-418626','batch','884aebf9ab47ecd4d677e50d53b0552aa89de75c0611d1cec31ab0e6c313e704','','',1795306401.8164923191,1795306415.440734148,1795306415.6886000633,'{"questions": "q.jsonl", "count": 2, "documents": ".", "output": "a.jsonl", "library": "core, quality", "model": "offline"}');
INSERT INTO runs VALUES('20261122-001407-fb696c','eval','0b8e71946225dba81d093f8cbb2eda05b3e621f58cf9e3d8dff6d17afd251fed','','',1795306447.1079554558,1795306463.1485471725,1795306463.384697914,'{"questions": "e.jsonl", "count": 1, "split": "all", "methods": "zero-shot, pearl", "library": "core, quality", "evaluation": {"title": "Own questions", "about": [["data", "e.jsonl, 1 question, 1 document"], ["library", "core, quality, 92 actions"], ["demonstrations", "5"]], "methods": ["zero-shot", "pearl"], "asked": {"": 1}, "notes": ["No language model: the embedded offline reader quotes the sentences that bear on each step. For a model, set OPENAI_API_KEY or OPENAI_BASE_URL, and --model NAME."]}, "model": "offline"}');
INSERT INTO runs VALUES('20261122-001452-2eb14f','batch','eeaad5785c7fa46b362e839e790d4b9b1172c86c694a05bd643d09c5104f043f','20261122-001452-2eb14f','',1795306492.6536462307,1795306492.6536462307,1795306496.4335169791,'{"questions": "q.jsonl", "count": 2, "documents": ".", "output": "a2.jsonl", "library": "core, quality", "model": "offline"}');
CREATE TABLE entries (
	id INTEGER NOT NULL, 
	run TEXT NOT NULL, 
	item TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	path TEXT NOT NULL, 
	value TEXT, 
	call_key TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	cause TEXT NOT NULL, 
	prompt_tokens BIGINT NOT NULL, 
	completion_tokens BIGINT NOT NULL, 
	cached_tokens BIGINT NOT NULL, 
	seconds FLOAT NOT NULL, 
	kept BOOLEAN NOT NULL, started FLOAT, 
	PRIMARY KEY (id)
);
INSERT INTO entries VALUES(1,'20261122-001251-3bea83','','decision','run','{"question": "Why does Mara leave the lighthouse?", "document": "story.txt (371 characters, sha256 2548bbbb61791a99f4daeeb5c709fa67baa5f830728014e3c95144461d6d73be)", "library": "core, quality", "model": "offline", "pearl": "0.1.0"}','',1,'done','',0,0,0,0.0,0,1795306371.3381347656);
INSERT INTO entries VALUES(2,'20261122-001251-3bea83','','call','plan/1',NULL,'d31280570072a04bfcdb6eeea8208e2693b1a891089d422c53778bcfbd8fee04',1,'done','',0,0,0,5.0819999999999998507,0,1795306372.6586606502);
INSERT INTO entries VALUES(3,'20261122-001251-3bea83','','decision','plan','"question: Why does Mara leave the lighthouse?\n\n1. event = FIND_EVENT(CTX, \"Mara leave the lighthouse\") : Find what is said of this: Mara leave the lighthouse\n2. answer = FIND_REASON(CTX, event) : Why does Mara leave the lighthouse?\n"','',1,'done','',0,0,0,0.0,0,1795306377.7804882526);
INSERT INTO entries VALUES(4,'20261122-001251-3bea83','','call','step/event',NULL,'3ae712a2c342fdc82854c095e30666b939ed63b676cf211d98c46e7a4575ec3e',1,'done','',0,0,0,8.2660000000000000142,0,1795306377.878927946);
INSERT INTO entries VALUES(5,'20261122-001251-3bea83','','decision','value/event','"> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> \"I will not sign,\" said Mara.\n> She went back to the lighthouse in spring."','',1,'done','',0,0,0,0.0,0,1795306386.1641769409);
INSERT INTO entries VALUES(6,'20261122-001251-3bea83','','call','step/answer',NULL,'66b07d121ba04c16baef5a63b6f60546edd4daffb310968a1e1e665d27b84e75',1,'done','',0,0,0,0.0010000000000000000208,0,1795306386.1645658016);
INSERT INTO entries VALUES(7,'20261122-001251-3bea83','','decision','value/answer','"> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> \"I will not sign,\" said Mara.\n> She went back to the lighthouse in spring."','',1,'done','',0,0,0,0.0,0,1795306386.1657948493);
INSERT INTO entries VALUES(8,'20261122-001251-3bea83','','decision','answer','{"outputs": ["answer"], "text": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> \"I will not sign,\" said Mara.\n> She went back to the lighthouse in spring."}','',1,'done','',0,0,0,0.0,0,1795306386.1658854484);
INSERT INTO entries VALUES(9,'20261122-001321-418626','a','decision','run','{"question": "Why does Mara leave the lighthouse?", "document": "story.txt (371 characters, sha256 2548bbbb61791a99f4daeeb5c709fa67baa5f830728014e3c95144461d6d73be)", "library": "core, quality", "model": "offline", "pearl": "0.1.0"}','',1,'done','',0,0,0,0.0,0,1795306401.9328289031);
INSERT INTO entries VALUES(10,'20261122-001321-418626','b','decision','run','{"question": "Who met Mara at the harbour?", "document": "story.txt (371 characters, sha256 2548bbbb61791a99f4daeeb5c709fa67baa5f830728014e3c95144461d6d73be)", "library": "core, quality", "model": "offline", "pearl": "0.1.0"}','',1,'done','',0,0,0,0.0,0,1795306402.7489008903);
INSERT INTO entries VALUES(11,'20261122-001321-418626','a','call','plan/1',NULL,'d31280570072a04bfcdb6eeea8208e2693b1a891089d422c53778bcfbd8fee04',1,'done','',0,0,0,0.044999999999999998334,1,1795306402.7485880851);
INSERT INTO entries VALUES(12,'20261122-001321-418626','b','call','plan/1',NULL,'b22ae2c7a00194122f62b8a02a17a2a16f89de69204a12526c364f5a340a3f02',1,'done','',0,0,0,2.8599999999999998756,0,1795306402.7496814727);
INSERT INTO entries VALUES(13,'20261122-001321-418626','a','decision','plan','"question: Why does Mara leave the lighthouse?\n\n1. event = FIND_EVENT(CTX, \"Mara leave the lighthouse\") : Find what is said of this: Mara leave the lighthouse\n2. answer = FIND_REASON(CTX, event) : Why does Mara leave the lighthouse?\n"','',1,'done','',0,0,0,0.0,0,1795306405.644267559);
INSERT INTO entries VALUES(14,'20261122-001321-418626','b','decision','plan','"question: Who met Mara at the harbour?\n\n1. answer = FIND_CHARACTER(CTX, \"met Mara at the harbour\") : Who met Mara at the harbour?\n"','',1,'done','',0,0,0,0.0,0,1795306405.64508152);
INSERT INTO entries VALUES(15,'20261122-001321-418626','a','call','step/event',NULL,'3ae712a2c342fdc82854c095e30666b939ed63b676cf211d98c46e7a4575ec3e',1,'done','',0,0,0,0.012000000000000000249,1,1795306405.7156932353);
INSERT INTO entries VALUES(16,'20261122-001321-418626','b','call','step/answer',NULL,'63c36b74327cf45d1c7bd67162b55a4c1e3ae2444aa43f0dce20c0b79083cd5e',1,'done','',0,0,0,9.7240000000000001989,0,1795306405.716125965);
INSERT INTO entries VALUES(17,'20261122-001321-418626','a','decision','value/event','"> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> \"I will not sign,\" said Mara.\n> She went back to the lighthouse in spring."','',1,'done','',0,0,0,0.0,0,1795306415.4919993878);
INSERT INTO entries VALUES(18,'20261122-001321-418626','b','decision','value/answer','"> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara."','',1,'done','',0,0,0,0.0,0,1795306415.4920709133);
INSERT INTO entries VALUES(19,'20261122-001321-418626','b','decision','answer','{"outputs": ["answer"], "text": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara."}','',1,'done','',0,0,0,0.0,0,1795306415.5235066413);
INSERT INTO entries VALUES(20,'20261122-001321-418626','a','call','step/answer',NULL,'66b07d121ba04c16baef5a63b6f60546edd4daffb310968a1e1e665d27b84e75',1,'done','',0,0,0,0.069000000000000005773,1,1795306415.4924418926);
INSERT INTO entries VALUES(21,'20261122-001321-418626','b','call','map',NULL,'41676323410c702b73c1744dd03f3b5141e47774e1d5ea77cac5209018941538',1,'done','',0,0,0,0.040000000000000000832,0,1795306415.5571548938);
INSERT INTO entries VALUES(22,'20261122-001321-418626','a','decision','value/answer','"> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> \"I will not sign,\" said Mara.\n> She went back to the lighthouse in spring."','',1,'done','',0,0,0,0.0,0,1795306415.5976383686);
INSERT INTO entries VALUES(23,'20261122-001321-418626','b','decision','option','"A"','',1,'done','',0,0,0,0.0,0,1795306415.5989255905);
INSERT INTO entries VALUES(24,'20261122-001321-418626','a','decision','answer','{"outputs": ["answer"], "text": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> \"I will not sign,\" said Mara.\n> She went back to the lighthouse in spring."}','',1,'done','',0,0,0,0.0,0,1795306415.6002163887);
INSERT INTO entries VALUES(25,'20261122-001407-fb696c','zero-shot/b','decision','run','{"question": "Who met Mara at the harbour?", "document": "story.txt (371 characters, sha256 2548bbbb61791a99f4daeeb5c709fa67baa5f830728014e3c95144461d6d73be)", "library": "core, quality", "model": "offline", "pearl": "0.1.0", "method": "zero-shot"}','',1,'done','',0,0,0,0.0,0,1795306447.222610712);
INSERT INTO entries VALUES(26,'20261122-001407-fb696c','zero-shot/b','decision','plan','"question: Who met Mara at the harbour?\n\nNew actions:\n- ANSWER_DIRECTLY(CTX, X) : Answer the question X from CTX: say what CTX says and what follows from it.\n\n1. answer = ANSWER_DIRECTLY(CTX, \"Who met Mara at the harbour?\") : Answer the question directly\n"','',1,'done','',0,0,0,0.0,0,1795306447.245023489);
INSERT INTO entries VALUES(27,'20261122-001407-fb696c','pearl/b','decision','run','{"question": "Who met Mara at the harbour?", "document": "story.txt (371 characters, sha256 2548bbbb61791a99f4daeeb5c709fa67baa5f830728014e3c95144461d6d73be)", "library": "core, quality", "model": "offline", "pearl": "0.1.0", "method": "pearl"}','',1,'done','',0,0,0,0.0,0,1795306447.2452096939);
INSERT INTO entries VALUES(28,'20261122-001407-fb696c','pearl/b','call','plan/1',NULL,'b22ae2c7a00194122f62b8a02a17a2a16f89de69204a12526c364f5a340a3f02',1,'done','',0,0,0,0.13200000000000000621,1,1795306448.3037014007);
INSERT INTO entries VALUES(29,'20261122-001407-fb696c','zero-shot/b','call','step/answer',NULL,'d73a561b95bc05ed1a00766dfd3e61520e7c8eab489eac67f743f0f08a232105',1,'done','',0,0,0,14.715999999999999303,0,1795306448.3746368884);
INSERT INTO entries VALUES(30,'20261122-001407-fb696c','pearl/b','decision','plan','"question: Who met Mara at the harbour?\n\n1. answer = FIND_CHARACTER(CTX, \"met Mara at the harbour\") : Who met Mara at the harbour?\n"','',1,'done','',0,0,0,0.0,0,1795306463.168737173);
INSERT INTO entries VALUES(31,'20261122-001407-fb696c','zero-shot/b','decision','value/answer','"> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara."','',1,'done','',0,0,0,0.0,0,1795306463.1689054966);
INSERT INTO entries VALUES(32,'20261122-001407-fb696c','zero-shot/b','decision','answer','{"outputs": ["answer"], "text": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara."}','',1,'done','',0,0,0,0.0,0,1795306463.1971104145);
INSERT INTO entries VALUES(33,'20261122-001407-fb696c','pearl/b','call','step/answer',NULL,'63c36b74327cf45d1c7bd67162b55a4c1e3ae2444aa43f0dce20c0b79083cd5e',1,'done','',0,0,0,0.094000000000000000222,1,1795306463.1693220138);
INSERT INTO entries VALUES(34,'20261122-001407-fb696c','zero-shot/b','call','map',NULL,'41676323410c702b73c1744dd03f3b5141e47774e1d5ea77cac5209018941538',1,'done','',0,0,0,0.0089999999999999993199,1,1795306463.263608694);
INSERT INTO entries VALUES(35,'20261122-001407-fb696c','pearl/b','decision','value/answer','"> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara."','',1,'done','',0,0,0,0.0,0,1795306463.2730693817);
INSERT INTO entries VALUES(36,'20261122-001407-fb696c','zero-shot/b','decision','option','"A"','',1,'done','',0,0,0,0.0,0,1795306463.2740142345);
INSERT INTO entries VALUES(37,'20261122-001407-fb696c','pearl/b','decision','answer','{"outputs": ["answer"], "text": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara."}','',1,'done','',0,0,0,0.0,0,1795306463.3080275058);
INSERT INTO entries VALUES(38,'20261122-001407-fb696c','pearl/b','call','map',NULL,'41676323410c702b73c1744dd03f3b5141e47774e1d5ea77cac5209018941538',1,'done','',0,0,0,0.051999999999999997613,1,1795306463.3083407878);
INSERT INTO entries VALUES(39,'20261122-001407-fb696c','pearl/b','decision','option','"A"','',1,'done','',0,0,0,0.0,0,1795306463.3608016967);
INSERT INTO entries VALUES(40,'20261122-001452-2eb14f','a','decision','run','{"question": "Why does Mara leave the lighthouse?", "document": "story.txt (371 characters, sha256 2548bbbb61791a99f4daeeb5c709fa67baa5f830728014e3c95144461d6d73be)", "library": "core, quality", "model": "offline", "pearl": "0.1.0"}','',1,'done','',0,0,0,0.0,0,1795306492.70565176);
INSERT INTO entries VALUES(41,'20261122-001452-2eb14f','b','decision','run','{"question": "Who met Mara at the harbour?", "document": "story.txt (371 characters, sha256 2548bbbb61791a99f4daeeb5c709fa67baa5f830728014e3c95144461d6d73be)", "library": "core, quality", "model": "offline", "pearl": "0.1.0"}','',1,'done','',0,0,0,0.0,0,1795306492.9871942996);
INSERT INTO entries VALUES(42,'20261122-001452-2eb14f','a','call','plan/1',NULL,'d31280570072a04bfcdb6eeea8208e2693b1a891089d422c53778bcfbd8fee04',1,'done','',0,0,0,0.8579999999999999849,0,1795306492.9826989174);
INSERT INTO entries VALUES(43,'20261122-001452-2eb14f','b','call','plan/1',NULL,'b22ae2c7a00194122f62b8a02a17a2a16f89de69204a12526c364f5a340a3f02',1,'done','',0,0,0,0.8579999999999999849,0,1795306492.9883105755);
INSERT INTO entries VALUES(44,'20261122-001452-2eb14f','a','decision','plan','"question: Why does Mara leave the lighthouse?\n\n1. event = FIND_EVENT(CTX, \"Mara leave the lighthouse\") : Find what is said of this: Mara leave the lighthouse\n2. answer = FIND_REASON(CTX, event) : Why does Mara leave the lighthouse?\n"','',1,'done','',0,0,0,0.0,0,1795306493.8577198982);
INSERT INTO entries VALUES(45,'20261122-001452-2eb14f','b','decision','plan','"question: Who met Mara at the harbour?\n\n1. answer = FIND_CHARACTER(CTX, \"met Mara at the harbour\") : Who met Mara at the harbour?\n"','',1,'done','',0,0,0,0.0,0,1795306493.858109951);
INSERT INTO entries VALUES(46,'20261122-001452-2eb14f','a','call','step/event',NULL,'3ae712a2c342fdc82854c095e30666b939ed63b676cf211d98c46e7a4575ec3e',1,'done','',0,0,0,2.5009999999999998898,0,1795306493.8954052925);
INSERT INTO entries VALUES(47,'20261122-001452-2eb14f','b','call','step/answer',NULL,'63c36b74327cf45d1c7bd67162b55a4c1e3ae2444aa43f0dce20c0b79083cd5e',1,'done','',0,0,0,2.5009999999999998898,0,1795306493.8956718445);
INSERT INTO entries VALUES(48,'20261122-001452-2eb14f','a','decision','value/event','"> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> \"I will not sign,\" said Mara.\n> She went back to the lighthouse in spring."','',1,'done','',0,0,0,0.0,0,1795306496.3967077732);
INSERT INTO entries VALUES(49,'20261122-001452-2eb14f','b','decision','value/answer','"> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara."','',1,'done','',0,0,0,0.0,0,1795306496.3967461586);
INSERT INTO entries VALUES(50,'20261122-001452-2eb14f','b','decision','answer','{"outputs": ["answer"], "text": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara."}','',1,'done','',0,0,0,0.0,0,1795306496.3981812);
INSERT INTO entries VALUES(51,'20261122-001452-2eb14f','a','call','step/answer',NULL,'66b07d121ba04c16baef5a63b6f60546edd4daffb310968a1e1e665d27b84e75',1,'done','',0,0,0,0.012999999999999999403,0,1795306496.3970282077);
INSERT INTO entries VALUES(52,'20261122-001452-2eb14f','b','call','map',NULL,'41676323410c702b73c1744dd03f3b5141e47774e1d5ea77cac5209018941538',1,'done','',0,0,0,0.010000000000000000208,0,1795306496.4096426964);
INSERT INTO entries VALUES(53,'20261122-001452-2eb14f','a','decision','value/answer','"> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> \"I will not sign,\" said Mara.\n> She went back to the lighthouse in spring."','',1,'done','',0,0,0,0.0,0,1795306496.4192943573);
INSERT INTO entries VALUES(54,'20261122-001452-2eb14f','b','decision','option','"A"','',1,'done','',0,0,0,0.0,0,1795306496.4200439452);
INSERT INTO entries VALUES(55,'20261122-001452-2eb14f','a','decision','answer','{"outputs": ["answer"], "text": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> \"I will not sign,\" said Mara.\n> She went back to the lighthouse in spring."}','',1,'done','',0,0,0,0.0,0,1795306496.4208931922);
CREATE TABLE replies (
	scope TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	text TEXT NOT NULL, 
	complete BOOLEAN NOT NULL, 
	prompt_tokens BIGINT NOT NULL, 
	completion_tokens BIGINT NOT NULL, 
	cached_tokens BIGINT NOT NULL, 
	model TEXT NOT NULL, 
	identity TEXT NOT NULL, 
	created FLOAT NOT NULL, 
	PRIMARY KEY (scope, "key")
);
INSERT INTO replies VALUES('','d31280570072a04bfcdb6eeea8208e2693b1a891089d422c53778bcfbd8fee04',replace('question: Why does Mara leave the lighthouse?\n\n1. event = FIND_EVENT(CTX, "Mara leave the lighthouse") : Find what is said of this: Mara leave the lighthouse\n2. answer = FIND_REASON(CTX, event) : Why does Mara leave the lighthouse?\n','\n',char(10)),1,0,0,0,'offline','offline 0.1.0',1795306377.7409420013);
INSERT INTO replies VALUES('','3ae712a2c342fdc82854c095e30666b939ed63b676cf211d98c46e7a4575ec3e',replace('> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> "I will not sign," said Mara.\n> She went back to the lighthouse in spring.','\n',char(10)),1,0,0,0,'offline','offline 0.1.0',1795306386.1444718838);
INSERT INTO replies VALUES('','66b07d121ba04c16baef5a63b6f60546edd4daffb310968a1e1e665d27b84e75',replace('> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> "I will not sign," said Mara.\n> She went back to the lighthouse in spring.','\n',char(10)),1,0,0,0,'offline','offline 0.1.0',1795306386.1654922962);
INSERT INTO replies VALUES('','b22ae2c7a00194122f62b8a02a17a2a16f89de69204a12526c364f5a340a3f02',replace('question: Who met Mara at the harbour?\n\n1. answer = FIND_CHARACTER(CTX, "met Mara at the harbour") : Who met Mara at the harbour?\n','\n',char(10)),1,0,0,0,'offline','offline 0.1.0',1795306405.6095836162);
INSERT INTO replies VALUES('','63c36b74327cf45d1c7bd67162b55a4c1e3ae2444aa43f0dce20c0b79083cd5e',replace('> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> "I will not sign," said Mara.','\n',char(10)),1,0,0,0,'offline','offline 0.1.0',1795306415.4400451183);
INSERT INTO replies VALUES('','41676323410c702b73c1744dd03f3b5141e47774e1d5ea77cac5209018941538','A',1,0,0,0,'offline','offline 0.1.0',1795306415.597508192);
INSERT INTO replies VALUES('','d73a561b95bc05ed1a00766dfd3e61520e7c8eab489eac67f743f0f08a232105',replace('> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> "I will not sign," said Mara.','\n',char(10)),1,0,0,0,'offline','offline 0.1.0',1795306463.0901269913);
INSERT INTO replies VALUES('20261122-001452-2eb14f','b22ae2c7a00194122f62b8a02a17a2a16f89de69204a12526c364f5a340a3f02',replace('question: Who met Mara at the harbour?\n\n1. answer = FIND_CHARACTER(CTX, "met Mara at the harbour") : Who met Mara at the harbour?\n','\n',char(10)),1,0,0,0,'offline','offline 0.1.0',1795306493.8466792106);
INSERT INTO replies VALUES('20261122-001452-2eb14f','d31280570072a04bfcdb6eeea8208e2693b1a891089d422c53778bcfbd8fee04',replace('question: Why does Mara leave the lighthouse?\n\n1. event = FIND_EVENT(CTX, "Mara leave the lighthouse") : Find what is said of this: Mara leave the lighthouse\n2. answer = FIND_REASON(CTX, event) : Why does Mara leave the lighthouse?\n','\n',char(10)),1,0,0,0,'offline','offline 0.1.0',1795306493.8445670604);
INSERT INTO replies VALUES('20261122-001452-2eb14f','3ae712a2c342fdc82854c095e30666b939ed63b676cf211d98c46e7a4575ec3e',replace('> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> "I will not sign," said Mara.\n> She went back to the lighthouse in spring.','\n',char(10)),1,0,0,0,'offline','offline 0.1.0',1795306496.3958895206);
INSERT INTO replies VALUES('20261122-001452-2eb14f','63c36b74327cf45d1c7bd67162b55a4c1e3ae2444aa43f0dce20c0b79083cd5e',replace('> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> "I will not sign," said Mara.','\n',char(10)),1,0,0,0,'offline','offline 0.1.0',1795306496.3961937427);
INSERT INTO replies VALUES('20261122-001452-2eb14f','66b07d121ba04c16baef5a63b6f60546edd4daffb310968a1e1e665d27b84e75',replace('> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> "I will not sign," said Mara.\n> She went back to the lighthouse in spring.','\n',char(10)),1,0,0,0,'offline','offline 0.1.0',1795306496.4102606773);
INSERT INTO replies VALUES('20261122-001452-2eb14f','41676323410c702b73c1744dd03f3b5141e47774e1d5ea77cac5209018941538','A',1,0,0,0,'offline','offline 0.1.0',1795306496.4192304611);
CREATE TABLE leases (
	scope TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	expires FLOAT NOT NULL, 
	PRIMARY KEY (scope, "key")
);
CREATE TABLE rows (
	run TEXT NOT NULL, 
	id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	row_key TEXT NOT NULL, 
	status TEXT NOT NULL, 
	result TEXT NOT NULL, 
	PRIMARY KEY (run, id)
);
INSERT INTO "rows" VALUES('20261122-001321-418626','b',1,'a489d3e06d7abdf0ede895f4ba624e16addfaef6dfd663c2ae631e4df6f18c3c','answered','{"id": "b", "question": "Who met Mara at the harbour?", "document": "story.txt", "status": "answered", "gold": "A", "correct": true, "answer": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara.", "words": "", "option": {"letter": "A", "text": "Jonas"}, "evidence": [{"text": "Mara kept the lighthouse at Skerry Point for eleven years.", "span": [0, 58], "line": 1, "step": "answer"}, {"text": "Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.", "span": [125, 223], "line": 3, "step": "answer"}, {"text": "Jonas met her at the harbour.", "span": [225, 254], "line": 5, "step": "answer"}, {"text": "\"I will not sign,\" said Mara.", "span": [298, 327], "line": 7, "step": "answer"}], "plan": "question: Who met Mara at the harbour?\n\n1. answer = FIND_CHARACTER(CTX, \"met Mara at the harbour\") : Who met Mara at the harbour?\n", "fallback": false, "calls": 3, "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}}');
INSERT INTO "rows" VALUES('20261122-001321-418626','a',0,'674b027a82c6969e160a2e79ddc86ca8bd3884ea213ed2fd74f3fd564a8dced4','answered','{"id": "a", "question": "Why does Mara leave the lighthouse?", "document": "story.txt", "status": "answered", "gold": null, "correct": null, "answer": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> \"I will not sign,\" said Mara.\n> She went back to the lighthouse in spring.", "words": "", "option": null, "evidence": [{"text": "Mara kept the lighthouse at Skerry Point for eleven years.", "span": [0, 58], "line": 1, "step": "answer"}, {"text": "Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.", "span": [125, 223], "line": 3, "step": "answer"}, {"text": "\"I will not sign,\" said Mara.", "span": [298, 327], "line": 7, "step": "answer"}, {"text": "She went back to the lighthouse in spring.", "span": [328, 370], "line": 7, "step": "answer"}], "plan": "question: Why does Mara leave the lighthouse?\n\n1. event = FIND_EVENT(CTX, \"Mara leave the lighthouse\") : Find what is said of this: Mara leave the lighthouse\n2. answer = FIND_REASON(CTX, event) : Why does Mara leave the lighthouse?\n", "fallback": false, "calls": 3, "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}}');
INSERT INTO "rows" VALUES('20261122-001407-fb696c','zero-shot/b',0,'867265a6d3bd15c611529b1b96a1cdbfc7d0a0c523ba1e3960580d257ab28085','answered','{"id": "zero-shot/b", "example": "b", "status": "answered", "correct": true, "result": {"method": "zero-shot", "id": "b", "split": "", "score": 1.0, "gold": "A", "answer": "A", "orders": [], "labels": {}, "question": "Who met Mara at the harbour?", "options": ["Jonas", "Her mother", "Nobody", "The keeper"], "words": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara.", "plan": "", "error": "", "fallback": false, "calls": 2, "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}, "cost": null, "measures": {"seconds": 16.085}}}');
INSERT INTO "rows" VALUES('20261122-001407-fb696c','pearl/b',1,'df183cae6ead8a22ea6e96a0e8c2dc99ae35adb3372784742823a87209762e29','answered','{"id": "pearl/b", "example": "b", "status": "answered", "correct": true, "result": {"method": "pearl", "id": "b", "split": "", "score": 1.0, "gold": "A", "answer": "A", "orders": [], "labels": {}, "question": "Who met Mara at the harbour?", "options": ["Jonas", "Her mother", "Nobody", "The keeper"], "words": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara.", "plan": "question: Who met Mara at the harbour?\n\n1. answer = FIND_CHARACTER(CTX, \"met Mara at the harbour\") : Who met Mara at the harbour?\n", "error": "", "fallback": false, "calls": 3, "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}, "cost": null, "measures": {"seconds": 16.116}}}');
INSERT INTO "rows" VALUES('20261122-001452-2eb14f','b',1,'a489d3e06d7abdf0ede895f4ba624e16addfaef6dfd663c2ae631e4df6f18c3c','answered','{"id": "b", "question": "Who met Mara at the harbour?", "document": "story.txt", "status": "answered", "gold": "A", "correct": true, "answer": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> Jonas met her at the harbour.\n> \"I will not sign,\" said Mara.", "words": "", "option": {"letter": "A", "text": "Jonas"}, "evidence": [{"text": "Mara kept the lighthouse at Skerry Point for eleven years.", "span": [0, 58], "line": 1, "step": "answer"}, {"text": "Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.", "span": [125, 223], "line": 3, "step": "answer"}, {"text": "Jonas met her at the harbour.", "span": [225, 254], "line": 5, "step": "answer"}, {"text": "\"I will not sign,\" said Mara.", "span": [298, 327], "line": 7, "step": "answer"}], "plan": "question: Who met Mara at the harbour?\n\n1. answer = FIND_CHARACTER(CTX, \"met Mara at the harbour\") : Who met Mara at the harbour?\n", "fallback": false, "calls": 3, "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}}');
INSERT INTO "rows" VALUES('20261122-001452-2eb14f','a',0,'674b027a82c6969e160a2e79ddc86ca8bd3884ea213ed2fd74f3fd564a8dced4','answered','{"id": "a", "question": "Why does Mara leave the lighthouse?", "document": "story.txt", "status": "answered", "gold": null, "correct": null, "answer": "> Mara kept the lighthouse at Skerry Point for eleven years.\n> Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.\n> \"I will not sign,\" said Mara.\n> She went back to the lighthouse in spring.", "words": "", "option": null, "evidence": [{"text": "Mara kept the lighthouse at Skerry Point for eleven years.", "span": [0, 58], "line": 1, "step": "answer"}, {"text": "Mara left the lighthouse because her mother was dying, and she took the last boat to the mainland.", "span": [125, 223], "line": 3, "step": "answer"}, {"text": "\"I will not sign,\" said Mara.", "span": [298, 327], "line": 7, "step": "answer"}, {"text": "She went back to the lighthouse in spring.", "span": [328, 370], "line": 7, "step": "answer"}], "plan": "question: Why does Mara leave the lighthouse?\n\n1. event = FIND_EVENT(CTX, \"Mara leave the lighthouse\") : Find what is said of this: Mara leave the lighthouse\n2. answer = FIND_REASON(CTX, event) : Why does Mara leave the lighthouse?\n", "fallback": false, "calls": 3, "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}}');
CREATE TABLE ledger (
	run TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	seen FLOAT NOT NULL, 
	tokens BIGINT NOT NULL, 
	cost BIGINT NOT NULL, 
	reserved_tokens BIGINT NOT NULL, 
	reserved_cost BIGINT NOT NULL, 
	PRIMARY KEY (run, owner)
);
CREATE TABLE review_plans (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	question TEXT NOT NULL, 
	text TEXT NOT NULL, 
	added FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO review_plans VALUES('6389c75641357410','run','20261122-001452-2eb14f/a','Why does Mara leave the lighthouse?',replace('question: Why does Mara leave the lighthouse?\n\n1. event = FIND_EVENT(CTX, "Mara leave the lighthouse") : Find what is said of this: Mara leave the lighthouse\n2. answer = FIND_REASON(CTX, event) : Why does Mara leave the lighthouse?\n','\n',char(10)),1795306501.2518737316);
INSERT INTO review_plans VALUES('1c6412c3a72bbb19','run','20261122-001452-2eb14f/b','Who met Mara at the harbour?',replace('question: Who met Mara at the harbour?\n\n1. answer = FIND_CHARACTER(CTX, "met Mara at the harbour") : Who met Mara at the harbour?\n','\n',char(10)),1795306501.2518746852);
CREATE TABLE review_people (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	token TEXT NOT NULL, 
	added FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO review_people VALUES(1,'Ann','c063a012461fe5027e0b03b7b4eb7baec086a6544c7da7a4476f528f0f8dd4a0',1795306501.2488627433);
INSERT INTO review_people VALUES(2,'Ben','eb035514b31939d582ed4e7e0a63f8e66167adcf260483203478601b33ca5882',1795306501.2510957717);
CREATE TABLE review_sessions (
	"key" TEXT NOT NULL, 
	person INTEGER NOT NULL, 
	started FLOAT NOT NULL, 
	PRIMARY KEY ("key")
);
CREATE TABLE review_shares (
	"plan" TEXT NOT NULL, 
	person INTEGER NOT NULL, 
	PRIMARY KEY ("plan", person)
);
INSERT INTO review_shares VALUES('6389c75641357410',1);
INSERT INTO review_shares VALUES('6389c75641357410',2);
INSERT INTO review_shares VALUES('1c6412c3a72bbb19',1);
INSERT INTO review_shares VALUES('1c6412c3a72bbb19',2);
CREATE TABLE review_verdicts (
	id INTEGER NOT NULL, 
	"plan" TEXT NOT NULL, 
	person INTEGER NOT NULL, 
	correct TEXT NOT NULL, 
	confidence INTEGER NOT NULL, 
	categories TEXT NOT NULL, 
	words TEXT NOT NULL, 
	seen BOOLEAN NOT NULL, 
	given FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO review_verdicts VALUES(1,'1c6412c3a72bbb19',1,'yes',4,'["merge"]','Fine.',0,1795303940.0);
INSERT INTO review_verdicts VALUES(2,'6389c75641357410',1,'yes',4,'["merge"]','Fine.',0,1795303940.0);
INSERT INTO review_verdicts VALUES(3,'1c6412c3a72bbb19',2,'no',3,'[]','',0,1795303941.0);
INSERT INTO review_verdicts VALUES(4,'6389c75641357410',2,'no',3,'[]','',0,1795303941.0);
CREATE TABLE review_versions (
	"plan" TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	person INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	file TEXT NOT NULL, 
	demo TEXT NOT NULL, 
	made FLOAT NOT NULL, 
	PRIMARY KEY ("plan", number)
);
CREATE INDEX runs_by_fingerprint ON runs (fingerprint);
CREATE INDEX entries_by_item ON entries (run, item, id);
CREATE INDEX rows_by_position ON rows (run, position);
CREATE UNIQUE INDEX review_people_by_token ON review_people (token);
CREATE INDEX review_verdicts_by_plan ON review_verdicts ("plan", person, id);
COMMIT;
