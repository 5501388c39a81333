-- The tables of TPC-H, as in the standard's dss.ddl; psql's variable "am" is their access method.

CREATE TABLE region (
	r_regionkey		integer NOT NULL,
	r_name			char(25) NOT NULL,
	r_comment		varchar(152)
) USING :am;

CREATE TABLE nation (
	n_nationkey		integer NOT NULL,
	n_name			char(25) NOT NULL,
	n_regionkey		integer NOT NULL,
	n_comment		varchar(152)
) USING :am;

CREATE TABLE part (
	p_partkey		integer NOT NULL,
	p_name			varchar(55) NOT NULL,
	p_mfgr			char(25) NOT NULL,
	p_brand			char(10) NOT NULL,
	p_type			varchar(25) NOT NULL,
	p_size			integer NOT NULL,
	p_container		char(10) NOT NULL,
	p_retailprice	numeric(15,2) NOT NULL,
	p_comment		varchar(23) NOT NULL
) USING :am;

CREATE TABLE supplier (
	s_suppkey		integer NOT NULL,
	s_name			char(25) NOT NULL,
	s_address		varchar(40) NOT NULL,
	s_nationkey		integer NOT NULL,
	s_phone			char(15) NOT NULL,
	s_acctbal		numeric(15,2) NOT NULL,
	s_comment		varchar(101) NOT NULL
) USING :am;

CREATE TABLE partsupp (
	ps_partkey		integer NOT NULL,
	ps_suppkey		integer NOT NULL,
	ps_availqty		integer NOT NULL,
	ps_supplycost	numeric(15,2) NOT NULL,
	ps_comment		varchar(199) NOT NULL
) USING :am;

CREATE TABLE customer (
	c_custkey		integer NOT NULL,
	c_name			varchar(25) NOT NULL,
	c_address		varchar(40) NOT NULL,
	c_nationkey		integer NOT NULL,
	c_phone			char(15) NOT NULL,
	c_acctbal		numeric(15,2) NOT NULL,
	c_mktsegment	char(10) NOT NULL,
	c_comment		varchar(117) NOT NULL
) USING :am;

CREATE TABLE orders (
	o_orderkey		integer NOT NULL,
	o_custkey		integer NOT NULL,
	o_orderstatus	char(1) NOT NULL,
	o_totalprice	numeric(15,2) NOT NULL,
	o_orderdate		date NOT NULL,
	o_orderpriority	char(15) NOT NULL,
	o_clerk			char(15) NOT NULL,
	o_shippriority	integer NOT NULL,
	o_comment		varchar(79) NOT NULL
) USING :am;
