/*-------------------------------------------------------------------------
 *
 * lsm_store_options.c
 *	  Options of foreign servers and user mappings of lsm_store.
 *
 * What an option may be is checked when it is set, in full: a server never has
 * options that cannot be read.  What depends on the time or on the user (privileges,
 * lsm.store_allowed_endpoints, whether a directory is there) is checked when the
 * server is used, so that a dump can be restored anywhere.
 *
 * Values of user mappings are secrets: no message here has one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "access/reloptions.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "lsm_store_impl.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/varlena.h"

PG_FUNCTION_INFO_V1(lsm_store_validator);

/* With a prefix, a key and the end of a temporary name, it fits a path. */
#define LSM_STORE_MAX_PATH		400

StaticAssertDecl(LSM_STORE_MAX_PATH + 2 * LSM_STORE_MAX_KEY + 64 < MAXPGPATH,
				 "paths of objects are not too long");

#define LSM_FOR_FILE			1
#define LSM_FOR_S3				2
#define LSM_FOR_MAPPING			4

/* Who may set it. */
typedef enum LsmOptionRight
{
	LSM_RIGHT_ANY,
	LSM_RIGHT_FILES,			/* may read and write files of the server */
	LSM_RIGHT_SUPERUSER
} LsmOptionRight;

typedef struct LsmOption
{
	const char *name;
	int			where;
	LsmOptionRight right;
	const char *(*check) (const char *value);	/* NULL, or what is wrong */
} LsmOption;

/* ---- checks of values ---- */

static const char *
lsm_option_check_type(const char *value)
{
	return strcmp(value, "s3") == 0 || strcmp(value, "file") == 0 ? NULL :
		"It must be s3 or file.";
}

/* Parts of letters, digits and ._- between single slashes. */
bool
lsm_store_key_valid(const char *key)
{
	bool		begin = true;

	if (strlen(key) > LSM_STORE_MAX_KEY)
		return false;
	for (const char *c = key; *c != '\0'; c++)
	{
		if (begin ? *c == '.' || *c == '/' : false)
			return false;
		begin = *c == '/';
		if (!((*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') ||
			  (*c >= '0' && *c <= '9') || strchr("._-/", *c) != NULL))
			return false;
	}
	return !begin;
}

static const char *
lsm_option_check_prefix(const char *value)
{
	return value[0] == '\0' || lsm_store_key_valid(value) ? NULL :
		"It must be of letters, digits and ._- in parts between single slashes, with none at the ends; no part begins with a period.";
}

static const char *
lsm_option_check_endpoint(const char *value)
{
	LsmStoreEndpoint endpoint;

	return lsm_store_endpoint_parse(value, false, &endpoint);
}

static const char *
lsm_option_check_bucket(const char *value)
{
	size_t		len = strlen(value);

	if (len >= 3 && len <= 63 && value[0] != '.' && value[0] != '-' && value[len - 1] != '-' &&
		strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789.-") == len &&
		strstr(value, "..") == NULL)
		return NULL;
	return "It must be of 3 to 63 lower-case letters, digits, hyphens and single periods, and begin with a letter or digit.";
}

static const char *
lsm_option_check_region(const char *value)
{
	size_t		len = strlen(value);

	if (len >= 1 && len <= 63 &&
		strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == len)
		return NULL;
	return "It must be of letters, digits, hyphens and underscores.";
}

static const char *
lsm_option_check_addressing(const char *value)
{
	return strcmp(value, "path") == 0 || strcmp(value, "virtual") == 0 ? NULL :
		"It must be path or virtual.";
}

static const char *
lsm_option_check_signature(const char *value)
{
	return strcmp(value, "v4") == 0 || strcmp(value, "v2") == 0 ? NULL :
		"It must be v4 or v2.";
}

static const char *
lsm_option_check_credentials(const char *value)
{
	return strcmp(value, "mapping") == 0 || strcmp(value, "environment") == 0 ? NULL :
		"It must be mapping or environment.";
}

static const char *
lsm_option_check_path(const char *value)
{
	return is_absolute_path(value) && strlen(value) <= LSM_STORE_MAX_PATH ? NULL :
		"It must be an absolute path, and not too long.";
}

static const char *
lsm_option_check_directory(const char *value)
{
	char	   *path = pstrdup(value);
	const char *problem = lsm_option_check_path(value);

	canonicalize_path(path);
	if (problem == NULL && path_is_prefix_of_path(DataDir, path))
		problem = "It must not be in the data directory.";
	pfree(path);
	return problem;
}

static const char *
lsm_option_check_proxy(const char *value)
{
	LsmStoreEndpoint endpoint;

	return lsm_store_endpoint_parse(value, false, &endpoint);
}

static const char *
lsm_option_check_verify(const char *value)
{
	return strcmp(value, "end") == 0 || strcmp(value, "full") == 0 ? NULL :
		"It must be end or full.";
}

static const char *
lsm_option_check_parallel(const char *value)
{
	int			n;

	StaticAssertStmt(LSM_STORE_MAX_PARALLEL == 256, "the text tells so");
	return parse_int(value, &n, 0, NULL) && n >= 1 && n <= LSM_STORE_MAX_PARALLEL ? NULL :
		"It must be a number from 1 to 256.";
}

static const char *
lsm_option_check_seconds(const char *value)
{
	int			n;

	return parse_int(value, &n, GUC_UNIT_MS, NULL) && n >= 100 && n <= 3600 * 1000 ? NULL :
		"It must be a time from 100ms to 1h, with its unit (milliseconds without).";
}

static const char *
lsm_option_check_part(const char *value)
{
	int			n;

	return parse_int(value, &n, GUC_UNIT_KB, NULL) && n >= 5 * 1024 && n <= 64 * 1024 ? NULL :
		"It must be a size from 5MB to 64MB, with its unit (kB without).";
}

/* It goes into a header or a hash: printable, no blanks, not empty. */
static const char *
lsm_option_check_secret(const char *value)
{
	size_t		len = strlen(value);

	for (size_t i = 0; i < len; i++)
		if (value[i] <= ' ' || value[i] > '~')
			len = 0;
	return len >= 1 && len <= 8192 ? NULL :
		"It must be of printable ASCII characters without blanks.";
}

static const LsmOption lsm_options[] = {
	{"type", LSM_FOR_FILE | LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_type},
	{"prefix", LSM_FOR_FILE | LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_prefix},
	{"verify", LSM_FOR_FILE | LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_verify},
	{"directory", LSM_FOR_FILE, LSM_RIGHT_FILES, lsm_option_check_directory},
	{"endpoint", LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_endpoint},
	{"bucket", LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_bucket},
	{"region", LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_region},
	{"addressing", LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_addressing},
	{"signature", LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_signature},
	{"credentials", LSM_FOR_S3, LSM_RIGHT_SUPERUSER, lsm_option_check_credentials},
	{"ca_file", LSM_FOR_S3, LSM_RIGHT_FILES, lsm_option_check_path},
	{"proxy", LSM_FOR_S3, LSM_RIGHT_SUPERUSER, lsm_option_check_proxy},
	{"connect_timeout", LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_seconds},
	{"stall_timeout", LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_seconds},
	{"request_timeout", LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_seconds},
	{"parallel_requests", LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_parallel},
	{"part_size", LSM_FOR_S3, LSM_RIGHT_ANY, lsm_option_check_part},
	{"access_key_id", LSM_FOR_MAPPING, LSM_RIGHT_ANY, lsm_option_check_secret},
	{"secret_access_key", LSM_FOR_MAPPING, LSM_RIGHT_ANY, lsm_option_check_secret},
	{"session_token", LSM_FOR_MAPPING, LSM_RIGHT_ANY, lsm_option_check_secret},
};

/* ---- the validator ---- */

static const LsmOption *
lsm_option_find(const char *name)
{
	for (int i = 0; i < (int) lengthof(lsm_options); i++)
		if (strcmp(lsm_options[i].name, name) == 0)
			return &lsm_options[i];
	return NULL;
}

static const char *
lsm_option_get(List *defs, const char *name, const char *otherwise)
{
	ListCell   *cell;

	foreach(cell, defs)
	{
		DefElem    *def = (DefElem *) lfirst(cell);

		if (strcmp(def->defname, name) == 0)
			return defGetString(def);
	}
	return otherwise;
}

pg_noreturn static void
lsm_option_raise_unknown(const char *name, int where)
{
	const LsmOption *known = lsm_option_find(name);
	StringInfoData valid;

	initStringInfo(&valid);
	for (int i = 0; i < (int) lengthof(lsm_options); i++)
		if (lsm_options[i].where & where)
			appendStringInfo(&valid, "%s%s", valid.len > 0 ? ", " : "", lsm_options[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("invalid option \"%s\"", name),
			 known != NULL && known->where == LSM_FOR_MAPPING ?
			 errdetail("It belongs to a user mapping, where others cannot see it.") : 0,
			 valid.len > 0 ? errhint("Valid options here are: %s.", valid.data) :
			 errhint("There are no valid options here.")));
}

static void
lsm_option_check_right(const LsmOption *option)
{
	if (superuser())
		return;
	if (option->right == LSM_RIGHT_SUPERUSER)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set option \"%s\"", option->name),
				 errhint("Only superusers may set it, and alter servers that have it.")));
	if (option->right == LSM_RIGHT_FILES &&
		!(has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES) &&
		  has_privs_of_role(GetUserId(), ROLE_PG_WRITE_SERVER_FILES)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set option \"%s\"", option->name),
				 errhint("Only members of \"pg_read_server_files\" and \"pg_write_server_files\" may set it, and alter servers that have it.")));
}

static void
lsm_option_check_value(const LsmOption *option, const char *value)
{
	const char *problem = option->check(value);

	if (problem == NULL)
		return;
	if (option->where == LSM_FOR_MAPPING)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("invalid value for option \"%s\"", option->name),
				 errdetail("%s", problem)));
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 errmsg("invalid value for option \"%s\": \"%s\"", option->name, value),
			 errdetail("%s", problem)));
}

static void
lsm_option_require(List *defs, const char *name, const char *of)
{
	if (lsm_option_get(defs, name, NULL) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_DYNAMIC_PARAMETER_VALUE_NEEDED),
				 errmsg("option \"%s\" is missing", name),
				 errdetail("%s needs it.", of)));
}

static bool
lsm_option_is_v2(List *defs)
{
	return strcmp(lsm_option_get(defs, "signature", "v4"), "v2") == 0;
}

#ifdef LSM_WITH_LIBS3
pg_noreturn static void
lsm_option_raise_with_v2(const char *name, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("option \"%s\" cannot be used so with signature v2", name),
			 errdetail("%s", detail)));
}

/* What libs3 cannot do is refused. */
static void
lsm_option_check_v2(List *defs)
{
	static const struct
	{
		const char *name;
		const char *detail;
	}			refused[] = {
		{"ca_file", "There is no encryption."},
		{"proxy", "libs3 knows no proxies."},
		{"region", "Signatures of version 2 do not name it."},
		{"part_size", "Objects are put in one request."}
	};
	const char *value = lsm_option_get(defs, "endpoint", NULL);
	LsmStoreEndpoint endpoint;

	for (int i = 0; i < (int) lengthof(refused); i++)
		if (lsm_option_get(defs, refused[i].name, NULL) != NULL)
			lsm_option_raise_with_v2(refused[i].name, refused[i].detail);
	if (strcmp(lsm_option_get(defs, "addressing", "path"), "path") != 0)
		lsm_option_raise_with_v2("addressing", "Only path works.");
	if (value != NULL && lsm_store_endpoint_parse(value, false, &endpoint) == NULL && endpoint.tls)
		lsm_option_raise_with_v2("endpoint",
								 "libs3 verifies no certificates; only http works.");
}
#else
static void
lsm_option_check_v2(List *defs)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("signatures of version 2 are not supported by this build"),
			 errhint("Build and install lsm with \"make WITH_LIBS3=1\", or use signature v4.")));
}
#endif

/* libs3 follows redirects, and trusts what it parses. */
static void
lsm_option_check_v2_right(void)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set option \"%s\" to v2", "signature"),
				 errhint("Only superusers may set it so, and alter servers that have it so.")));
}

/*
 * lsm_store_validator(text[], oid): options of the wrapper, of a server, or of a user
 * mapping, all of them as they will be.
 */
Datum
lsm_store_validator(PG_FUNCTION_ARGS)
{
	List	   *defs = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid			catalog = PG_GETARG_OID(1);
	const char *type = lsm_option_get(defs, "type", NULL);
	int			where = 0;
	ListCell   *cell;

	if (catalog == UserMappingRelationId)
		where = LSM_FOR_MAPPING;
	else if (catalog == ForeignServerRelationId)
	{
		lsm_option_require(defs, "type", "A server of lsm_store");
		lsm_option_check_value(lsm_option_find("type"), type);
		where = strcmp(type, "s3") == 0 ? LSM_FOR_S3 : LSM_FOR_FILE;
	}
	foreach(cell, defs)
	{
		DefElem    *def = (DefElem *) lfirst(cell);
		const LsmOption *option = lsm_option_find(def->defname);

		if (option == NULL || !(option->where & where))
			lsm_option_raise_unknown(def->defname, where);
		lsm_option_check_right(option);
		lsm_option_check_value(option, defGetString(def));
	}
	if (where == LSM_FOR_S3)
	{
		lsm_option_require(defs, "endpoint", "A store of type s3");
		lsm_option_require(defs, "bucket", "A store of type s3");
		if (lsm_option_is_v2(defs))
		{
			lsm_option_check_v2(defs);
			lsm_option_check_v2_right();
		}
	}
	else if (where == LSM_FOR_FILE)
		lsm_option_require(defs, "directory", "A store of type file");
	else if (where == LSM_FOR_MAPPING)
	{
		lsm_option_require(defs, "access_key_id", "A user mapping of lsm_store");
		lsm_option_require(defs, "secret_access_key", "A user mapping of lsm_store");
	}
	PG_RETURN_VOID();
}

/* ---- options of a server that is used ---- */

/* They have been through the validator. */
static int
lsm_option_int(List *defs, const char *name, const char *otherwise, int unit)
{
	int			n = 0;

	if (!parse_int(lsm_option_get(defs, name, otherwise), &n, unit, NULL))
		elog(ERROR, "option \"%s\" is not a number", name);
	return n;
}

static char *
lsm_option_copy(List *defs, const char *name, const char *otherwise)
{
	const char *value = lsm_option_get(defs, name, otherwise);

	return value == NULL ? NULL : pstrdup(value);
}

void
lsm_store_options_read(LsmStoreOptions *options, List *defs)
{
	ListCell   *cell;

	/* Once more: the library may be another one than that which set them. */
	foreach(cell, defs)
	{
		DefElem    *def = (DefElem *) lfirst(cell);
		const LsmOption *option = lsm_option_find(def->defname);

		if (option == NULL || option->where == LSM_FOR_MAPPING)
			lsm_option_raise_unknown(def->defname, LSM_FOR_FILE | LSM_FOR_S3);
		lsm_option_check_value(option, defGetString(def));
	}
	memset(options, 0, sizeof(*options));
	options->type = strcmp(lsm_option_get(defs, "type", ""), "s3") == 0 ? LSM_STORE_S3 :
		LSM_STORE_FILE;
	options->prefix = lsm_option_copy(defs, "prefix", "");
	options->verify_full = strcmp(lsm_option_get(defs, "verify", "end"), "full") == 0;
	options->parallel_requests = lsm_option_int(defs, "parallel_requests", "64", 0);
	if (options->type == LSM_STORE_FILE)
	{
		lsm_option_require(defs, "directory", "A store of type file");
		options->directory = lsm_option_copy(defs, "directory", NULL);
		canonicalize_path(options->directory);
		return;
	}
	lsm_option_require(defs, "endpoint", "A store of type s3");
	lsm_option_require(defs, "bucket", "A store of type s3");
	options->signature_v2 = lsm_option_is_v2(defs);
	if (options->signature_v2)
		lsm_option_check_v2(defs);
	options->endpoint_text = lsm_option_copy(defs, "endpoint", NULL);
	lsm_store_endpoint_parse(options->endpoint_text, false, &options->endpoint);
	options->bucket = lsm_option_copy(defs, "bucket", NULL);
	options->region = lsm_option_copy(defs, "region", "us-east-1");
	options->virtual_hosted = strcmp(lsm_option_get(defs, "addressing", "path"), "virtual") == 0;
	options->from_environment =
		strcmp(lsm_option_get(defs, "credentials", "mapping"), "environment") == 0;
	options->ca_file = lsm_option_copy(defs, "ca_file", NULL);
	options->proxy = lsm_option_copy(defs, "proxy", NULL);
	options->connect_timeout_ms = lsm_option_int(defs, "connect_timeout", "10s", GUC_UNIT_MS);
	options->stall_timeout_ms = lsm_option_int(defs, "stall_timeout", "20s", GUC_UNIT_MS);
	options->request_timeout_ms = lsm_option_int(defs, "request_timeout", "2min", GUC_UNIT_MS);
	options->part_bytes = (size_t) lsm_option_int(defs, "part_size", "8MB", GUC_UNIT_KB) * 1024;
}

void
lsm_store_credentials_read(LsmStoreCredentials *credentials, List *defs)
{
	credentials->access_key_id = lsm_option_copy(defs, "access_key_id", NULL);
	credentials->secret_access_key = lsm_option_copy(defs, "secret_access_key", NULL);
	credentials->session_token = lsm_option_copy(defs, "session_token", NULL);
}

/* ---- endpoints ---- */

/* host of letters, digits, hyphens and periods, or an IPv6 address in brackets. */
static const char *
lsm_endpoint_host(const char **at, bool in_list, LsmStoreEndpoint *endpoint)
{
	bool		brackets = **at == '[';
	size_t		len;

	if (brackets)
		(*at)++;
	else if (in_list && strncmp(*at, "*.", 2) == 0)
	{
		endpoint->wildcard = true;
		*at += 2;
	}
	len = strspn(*at, brackets ? "0123456789abcdefABCDEF:." :
				 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.");
	if (len == 0 || len >= sizeof(endpoint->host) || (!brackets && **at == '-'))
		return "It has no host that is valid.";
	for (size_t i = 0; i < len; i++)
		endpoint->host[i] = pg_ascii_tolower((*at)[i]);
	endpoint->host[len] = '\0';
	*at += len;
	if (brackets && *(*at)++ != ']')
		return "It has no host that is valid.";
	return NULL;
}

/*
 * Parse [SCHEME://]HOST[:PORT].  A scheme is needed but in lists, where https goes
 * without saying and *.DOMAIN may be the host.
 */
const char *
lsm_store_endpoint_parse(const char *text, bool in_list, LsmStoreEndpoint *endpoint)
{
	const char *at = text;
	const char *problem;

	memset(endpoint, 0, sizeof(*endpoint));
	endpoint->tls = true;
	if (pg_strncasecmp(at, "https://", 8) == 0)
		at += 8;
	else if (pg_strncasecmp(at, "http://", 7) == 0)
	{
		at += 7;
		endpoint->tls = false;
	}
	else if (!in_list)
		return "It must be of the form https://host or http://host, with :port behind that if need be.";
	endpoint->port = endpoint->tls ? 443 : 80;
	problem = lsm_endpoint_host(&at, in_list, endpoint);
	if (problem)
		return problem;
	if (*at == ':')
	{
		size_t		len = strspn(at + 1, "0123456789");

		endpoint->port = len >= 1 && len <= 5 ? atoi(at + 1) : 0;
		if (endpoint->port < 1 || endpoint->port > 65535)
			return "It has no port that is valid.";
		at += 1 + len;
	}
	if (*at != '\0')
		return "There must be nothing behind host and port.";
	return NULL;
}

/* Is it in the list?  A wildcard stands for any host below its domain. */
bool
lsm_store_endpoint_allowed(const LsmStoreEndpoint *endpoint, const char *list)
{
	char	   *copy = pstrdup(list);
	List	   *items = NIL;
	ListCell   *cell;
	bool		allowed = false;

	if (!SplitGUCList(copy, ',', &items))
		items = NIL;
	foreach(cell, items)
	{
		LsmStoreEndpoint item;
		size_t		host_len = strlen(endpoint->host);
		size_t		item_len;

		if (lsm_store_endpoint_parse(lfirst(cell), true, &item) != NULL ||
			item.tls != endpoint->tls || item.port != endpoint->port)
			continue;
		item_len = strlen(item.host);
		if (!item.wildcard)
			allowed |= strcmp(item.host, endpoint->host) == 0;
		else
			allowed |= host_len > item_len + 1 &&
				endpoint->host[host_len - item_len - 1] == '.' &&
				strcmp(endpoint->host + host_len - item_len, item.host) == 0;
	}
	list_free(items);
	pfree(copy);
	return allowed;
}

/* Check hook of lsm.store_allowed_endpoints. */
bool
lsm_store_endpoints_check(char **newval, void **extra, int source)
{
	char	   *copy = pstrdup(*newval);
	List	   *items;
	ListCell   *cell;
	bool		valid = true;

	if (!SplitGUCList(copy, ',', &items))
	{
		GUC_check_errdetail("List syntax is invalid.");
		return false;
	}
	foreach(cell, items)
	{
		LsmStoreEndpoint item;
		const char *problem = lsm_store_endpoint_parse(lfirst(cell), true, &item);

		if (problem)
		{
			GUC_check_errdetail("Endpoint \"%s\": %s", (char *) lfirst(cell), problem);
			valid = false;
			break;
		}
	}
	list_free(items);
	pfree(copy);
	return valid;
}

/* ---- addresses ---- */

/* Is it one of the services that tell virtual machines about themselves, and more? */
static bool
lsm_address_is_metadata(const uint8 *a)
{
	static const uint8 refused[][4] = {
		{100, 100, 100, 200},	/* they give out credentials, too */
		{168, 63, 129, 16},
		{192, 0, 0, 192}
	};

	/* most are link-local */
	if (a[0] == 169 && a[1] == 254)
		return true;
	for (int i = 0; i < (int) lengthof(refused); i++)
		if (memcmp(a, refused[i], 4) == 0)
			return true;
	return false;
}

static bool
lsm_address_refused_v4(const uint8 *a)
{
	/* this host by no name; multicast */
	return a[0] == 0 || a[0] >= 224 || lsm_address_is_metadata(a);
}

/*
 * An address that a translator of the network itself makes from one of IPv4 (RFC 8215): where
 * that lies in it depends on the length of the translator's prefix (RFC 6052), which
 * we do not know.
 */
static bool
lsm_address_refused_local_nat64(const uint8 *a)
{
	static const uint8 places[][4] = {
		{6, 7, 9, 10},			/* the prefix has 48 bits, */
		{7, 9, 10, 11},			/* 56, */
		{9, 10, 11, 12},		/* 64, */
		{12, 13, 14, 15}		/* 96 */
	};

	for (int i = 0; i < (int) lengthof(places); i++)
	{
		uint8		v4[4];

		for (int j = 0; j < 4; j++)
			v4[j] = a[places[i][j]];
		if (lsm_address_is_metadata(v4))
			return true;
	}
	return false;
}

static bool
lsm_address_refused_v6(const uint8 *a)
{
	static const uint8 zeroes[12] = {0};
	static const uint8 mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
	static const uint8 translated[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
	static const uint8 nat64[12] = {0, 0x64, 0xFF, 0x9B};
	static const uint8 local_nat64[6] = {0, 0x64, 0xFF, 0x9B, 0, 1};
	static const uint8 loopback[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
	static const uint8 metadata[][16] = {
		{0xFD, 0x00, 0x0E, 0xC2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54},
		{0xFD, 0x00, 0x0E, 0xC2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x00, 0x23},
		{0xFD, 0x20, 0x00, 0xCE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54},
		{0xFD, 0x00, 0x00, 0xC1, 0, 0, 0, 0, 0, 0, 0, 0, 0xA9, 0xFE, 0xA9, 0xFE},
		{0xFD, 0x00, 0x00, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x00, 0x42}
	};

	if (memcmp(a, loopback, 16) == 0)
		return false;
	if ((a[0] == 0xFE && (a[1] & 0xC0) == 0x80) || a[0] == 0xFF)
		return true;
	for (int i = 0; i < (int) lengthof(metadata); i++)
		if (memcmp(a, metadata[i], 16) == 0)
			return true;

	/* IPv4 addresses that are written as others */
	if (memcmp(a, zeroes, 12) == 0 || memcmp(a, mapped, 12) == 0 ||
		memcmp(a, translated, 12) == 0 || memcmp(a, nat64, 12) == 0)
		return lsm_address_refused_v4(a + 12);
	if (a[0] == 0x20 && a[1] == 0x02)
		return lsm_address_refused_v4(a + 2);
	if (memcmp(a, local_nat64, 6) == 0)
		return lsm_address_refused_local_nat64(a);
	return false;
}

/* Must no connection go there?  Asked for each, when names have been resolved. */
bool
lsm_store_address_refused(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return lsm_address_refused_v4((const uint8 *)
									  &((const struct sockaddr_in *) address)->sin_addr);
	if (address->sa_family == AF_INET6)
		return lsm_address_refused_v6((const uint8 *)
									  &((const struct sockaddr_in6 *) address)->sin6_addr);
	return true;
}
