--
-- The cold store, without any store: signatures, XML, endpoints, addresses
--
CREATE FUNCTION lsm_test_sign(text, text, text, text, text, text[], text[], text, text)
    RETURNS text AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_xml(text) RETURNS text AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_endpoint(text, text) RETURNS bool AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_address(text) RETURNS bool AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_classify(int, text) RETURNS text AS '$libdir/lsm' LANGUAGE C STRICT;
CREATE FUNCTION lsm_test_key(text) RETURNS bool AS '$libdir/lsm' LANGUAGE C STRICT;

-- The examples of "Signature Calculations for the Authorization Header" in the
-- reference of S3, with the signatures that it gives.
CREATE FUNCTION example(method text, path text, query text, names text[], vals text[],
                        payload text) RETURNS text LANGUAGE sql AS $$
    SELECT substring(lsm_test_sign('AKIAIOSFODNN7EXAMPLE',
        'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', method, path, query,
        names || '{host,x-amz-date}'::text[],
        vals || '{examplebucket.s3.amazonaws.com,20130524T000000Z}'::text[],
        payload, '20130524T000000Z') FROM 'SignedHeaders=.*') $$;
\t
\a
SELECT example('GET', '/test.txt', '', '{range}', '{bytes=0-9}', '');
SELECT example('PUT', '/test%24file.text', '', '{x-amz-storage-class,date}',
    '{REDUCED_REDUNDANCY,"Fri, 24 May 2013 00:00:00 GMT"}', 'Welcome to Amazon S3.');
SELECT example('GET', '/', 'lifecycle=', '{}', '{}', '');
SELECT example('GET', '/', 'max-keys=2&prefix=J', '{}', '{}', '');
-- all of a header
SELECT lsm_test_sign('ID', 'SECRET', 'GET', '/', '', '{host}', '{h}', '', '20200101T010203Z');

-- what documents say
SELECT lsm_test_xml('<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>NoSuchKey</Code><Message>a &lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;</Message>
<Empty/><With a="1" b=''>''>x</With></Error>');
SELECT lsm_test_xml('<s3:List xmlns:s3="urn:s3"><s3:Key>&#65;&#x41;&#x7a;</s3:Key></s3:List>');
SELECT lsm_test_xml('<a> <b>1</b> <b>2</b> text </a> ');
-- and what is no document that we take
SELECT lsm_test_xml(d) FROM (VALUES ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'),
    ('<a>&b;</a>'), ('<a><!-- c --></a>'), ('<a><![CDATA[b]]></a>'), ('<a><?b?></a>'),
    ('<a></b>'), ('<a><b></a></b>'), ('<a>'), ('<a'), ('<a b>'), ('<a b=c>'), ('<a b="c>'),
    ('</a>'), (''), ('  '), ('x'), ('<a/><b/>'), ('<a/>x'), ('<?xml'), ('<>'), ('<a>&#0;</a>'),
    ('<a>&#xD800;</a>'), ('<a>&#1114112;</a>'), ('<a>&#;</a>'), ('<a>&#12'), ('<a>&'), ('<a>x'),
    (repeat('<a>', 17)), ('<' || repeat('a', 300) || '>')) v(d);

-- endpoints that the list allows
SELECT endpoint, list, lsm_test_endpoint(endpoint, list) FROM (VALUES
    ('https://s3.example.com', ''),
    ('https://s3.example.com', 's3.example.com'),
    ('https://S3.Example.com', 's3.EXAMPLE.com'),
    ('https://s3.example.com:443', 's3.example.com'),
    ('https://s3.example.com:444', 's3.example.com'),
    ('https://s3.example.com:444', 's3.example.com, s3.example.com:444'),
    ('http://s3.example.com', 's3.example.com'),
    ('http://s3.example.com', 'http://s3.example.com'),
    ('https://s3.example.com', 'http://s3.example.com'),
    ('https://s3.example.com', '*.example.com'),
    ('https://a.b.example.com', '*.example.com'),
    ('https://example.com', '*.example.com'),
    ('https://ab.example.com', '*.b.example.com'),
    ('https://s3.example.com.org', 's3.example.com'),
    ('https://[::1]:9000', 'https://[::1]:9000'),
    ('https://[::1]:9000', '[::1]')) v(endpoint, list);
-- no endpoints
SELECT endpoint FROM unnest(ARRAY['s3.example.com', 'ftp://s3.example.com', 'https://',
    'https://user@s3.example.com', 'https://s3.example.com/', 'https://s3.example.com/x',
    'https://s3.example.com?x', 'https://s3.example.com#x', 'https://s3.example.com:',
    'https://s3.example.com:0', 'https://s3.example.com:65536', 'https://s3.example.com:4x',
    'https://-s3.example.com', 'https://*.example.com', 'https://[::1', 'https://[]',
    'https://' || 's3 example.com', 'https://' || E's3\nexample.com']) endpoint
WHERE lsm_test_endpoint(endpoint, '') IS NOT NULL;
SET lsm.store_allowed_endpoints = 's3.example.com, http://127.0.0.1:9000, *.example.org';
SET lsm.store_allowed_endpoints = 's3.example.com, https://user@s3.example.com';
SET lsm.store_allowed_endpoints = '*';
RESET lsm.store_allowed_endpoints;

-- addresses that nobody may be led to
SELECT address, lsm_test_address(address) FROM unnest(ARRAY['127.0.0.1', '10.1.2.3',
    '93.184.216.34', '169.254.169.254', '169.254.0.1', '169.253.0.1', '0.0.0.0', '224.0.0.1',
    '255.255.255.255', '100.100.100.200', '168.63.129.16', '192.0.0.192', '::1', '::',
    '2001:db8::1', 'fe80::1', 'febf::1', 'fec0::1', 'ff02::1', 'fd00:ec2::254',
    'fd20:ce::254', 'fd00::1', '::ffff:169.254.169.254', '::ffff:127.0.0.1',
    '64:ff9b::169.254.169.254', '64:ff9b::8.8.8.8', '2002:a9fe:a9fe::1', '::169.254.169.254',
    'fd00:ec2::23', 'fd00:ec2::24', 'fd00:c1::a9fe:a9fe', 'fd00:42::42', 'fd00:42::43',
    '64:ff9b::169.254.0.1', '64:ff9b::100.100.100.200', '64:ff9b:1::169.254.169.254',
    '64:ff9b:1::8.8.8.8', '64:ff9b:1:ffff::169.254.169.254', '64:ff9b:1:ffff::8.8.8.8',
    '64:ff9b:1:a9fe:a9:fe00::', '64:ff9b:1:a9:fe:a9fe::', '64:ff9b:1:0:a9:fea9:fe00:0',
    '64:ff9b:1:808:8:800::', '64:ff9b:2::169.254.169.254', '::ffff:0:169.254.169.254',
    '::ffff:0:8.8.8.8'])
    address;

-- what answers mean
SELECT status, code, lsm_test_classify(status, code) FROM (VALUES (200, ''), (204, ''), (206, ''),
    (301, 'PermanentRedirect'), (307, ''), (400, ''), (400, 'RequestTimeout'),
    (400, 'ExpiredToken'), (400, 'BadDigest'), (400, 'AuthorizationHeaderMalformed'), (401, ''),
    (403, 'AccessDenied'), (403, 'RequestTimeTooSkewed'), (404, ''), (404, 'NoSuchKey'),
    (404, 'NoSuchBucket'), (404, 'NoSuchUpload'), (405, ''), (408, ''), (409, ''),
    (409, 'OperationAborted'), (412, 'PreconditionFailed'), (416, 'InvalidRange'), (429, ''),
    (500, 'InternalError'), (501, 'NotImplemented'), (502, ''), (503, 'SlowDown'), (504, ''),
    (505, ''), (0, '')) v(status, code);

-- keys
SELECT key, lsm_test_key(key) FROM unnest(ARRAY['a', 'a/b/c', 'A-1_2.x', 'a.', '', '/', '/a', 'a/',
    'a//b', '.', '..', 'a/../b', 'a/.b', 'a b', 'a~', 'a%b', E'a\nb', repeat('a', 256)]) key;
SELECT lsm_test_key(repeat('a', 257));
