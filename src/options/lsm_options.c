/*-------------------------------------------------------------------------
 *
 * lsm_options.c
 *	  Options of a table: what they are, where they are kept, how they are read.
 *
 * The server has no place for storage parameters of a table access method, so
 * those of a table are its security label of the provider "lsm", a text like
 * "compression_level=9, block_size=64kB".  The server dumps a label with the
 * table's definition, drops it with the table and gives it to nobody but the
 * owner to change.  lsm_ddl.c turns CREATE TABLE ... WITH (lsm.x = ...) and ALTER
 * TABLE into changes of the label.
 *
 * To add an option: a field of LsmTableOptions and an entry of option_defs.
 *
 * A label is checked when it is set.  When it is read, what this library does
 * not know (a later one may have written it) is kept but means nothing: a flush
 * must not fail for it.
 *
 * CACHE
 *	  The parsed options are the relcache entry's rd_amcache, which a relcache
 *	  invalidation frees; each change of a label sends one.  So pointers to it
 *	  are not handed out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "commands/seclabel.h"
#include "lsm_options.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

/* What ZSTD_minCLevel() and ZSTD_maxCLevel() say. */
#define LSM_MIN_ZSTD_LEVEL		(-131072)
#define LSM_MAX_ZSTD_LEVEL		22

bool		lsm_auto_compact = true;

typedef enum LsmOptionType
{
	LSM_OPTION_BOOL,			/* field: bool */
	LSM_OPTION_INT,				/* field: int */
	LSM_OPTION_ENUM,			/* field: int */
	LSM_OPTION_NAME				/* field: char[NAMEDATALEN], empty by default */
} LsmOptionType;

typedef struct LsmOptionDef
{
	const char *name;
	LsmOptionType type;
	Size		field;			/* offset in LsmTableOptions */
	int			preset;			/* value if none is given */
	int			min;			/* INT */
	int			max;
	int			flags;			/* INT: GUC_UNIT_BYTE or 0 */
	const struct config_enum_entry *values; /* ENUM */
} LsmOptionDef;

static const struct config_enum_entry compression_values[] = {
	{"zstd", LSM_COMPRESSION_ZSTD, false},
	{"none", LSM_COMPRESSION_NONE, false},
	{NULL, 0, false}
};

static const LsmOptionDef option_defs[] = {
	{
		.name = "compression",
		.type = LSM_OPTION_ENUM,
		.field = offsetof(LsmTableOptions, compression),
		.preset = LSM_COMPRESSION_ZSTD,
		.values = compression_values
	},
	{
		.name = "compression_level",
		.type = LSM_OPTION_INT,
		.field = offsetof(LsmTableOptions, compression_level),
		.preset = LSM_DEFAULT_LEVEL,
		.min = LSM_MIN_ZSTD_LEVEL,
		.max = LSM_MAX_ZSTD_LEVEL
	},
	{
		.name = "block_size",
		.type = LSM_OPTION_INT,
		.field = offsetof(LsmTableOptions, block_size),
		.preset = 32 * 1024,
		.min = 8 * 1024,
		.max = 1024 * 1024,
		.flags = GUC_UNIT_BYTE
	},
	{
		.name = "dictionary",
		.type = LSM_OPTION_BOOL,
		.field = offsetof(LsmTableOptions, dictionary),
		.preset = false
	},
	{
		.name = "auto_compact",
		.type = LSM_OPTION_BOOL,
		.field = offsetof(LsmTableOptions, auto_compact),
		.preset = true
	},
	{
		.name = "cold_store",
		.type = LSM_OPTION_NAME,
		.field = offsetof(LsmTableOptions, cold_store)
	}
};

/* ---- one option ---- */

static const LsmOptionDef *
lsm_option_find(const char *name)
{
	for (size_t i = 0; i < lengthof(option_defs); i++)
		if (strcmp(option_defs[i].name, name) == 0)
			return &option_defs[i];
	return NULL;
}

pg_noreturn static void
lsm_option_unrecognized(const char *name)
{
	StringInfoData names;

	initStringInfo(&names);
	for (size_t i = 0; i < lengthof(option_defs); i++)
		appendStringInfo(&names, "%s\"lsm.%s\"", i > 0 ? ", " : "", option_defs[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized parameter \"lsm.%s\"", name),
			 errhint("Options of access method \"lsm\" are %s.", names.data)));
	pg_unreachable();
}

/* A value in its canonical form: what a label holds and the user is shown. */
static char *
lsm_option_format(const LsmOptionDef *def, int value)
{
	switch (def->type)
	{
		case LSM_OPTION_BOOL:
			return pstrdup(value ? "true" : "false");
		case LSM_OPTION_ENUM:
			for (const struct config_enum_entry *entry = def->values; entry->name != NULL; entry++)
				if (entry->val == value)
					return pstrdup(entry->name);
			elog(ERROR, "option \"%s\" has no value %d", def->name, value);
		case LSM_OPTION_INT:
		case LSM_OPTION_NAME:
			break;
	}
	if (def->flags != GUC_UNIT_BYTE)
		return psprintf("%d", value);
	if (value % (1024 * 1024) == 0)
		return psprintf("%dMB", value / (1024 * 1024));
	if (value % 1024 == 0)
		return psprintf("%dkB", value / 1024);
	return psprintf("%dB", value);
}

static void
lsm_option_bad_enum(const LsmOptionDef *def, const char *text)
{
	StringInfoData values;

	initStringInfo(&values);
	for (const struct config_enum_entry *entry = def->values; entry->name != NULL; entry++)
		appendStringInfo(&values, "%s\"%s\"", entry == def->values ? "" : ", ", entry->name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for enum option \"lsm.%s\": %s", def->name, text),
			 errdetail("Valid values are %s.", values.data)));
}

/* Read a value.  If it is none: an error, or false, as the caller wants. */
static bool
lsm_option_parse(const LsmOptionDef *def, const char *text, bool raise, int *value)
{
	const char *hint = NULL;
	bool		on;

	switch (def->type)
	{
		case LSM_OPTION_BOOL:
			if (parse_bool(text, &on))
			{
				*value = on;
				return true;
			}
			if (raise)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("invalid value for boolean option \"lsm.%s\": %s",
								def->name, text)));
			return false;

		case LSM_OPTION_ENUM:
			for (const struct config_enum_entry *entry = def->values; entry->name != NULL; entry++)
			{
				if (pg_strcasecmp(entry->name, text) == 0)
				{
					*value = entry->val;
					return true;
				}
			}
			if (raise)
				lsm_option_bad_enum(def, text);
			return false;

		case LSM_OPTION_INT:
			if (!parse_int(text, value, def->flags, &hint))
			{
				if (raise)
					ereport(ERROR,
							(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							 errmsg("invalid value for integer option \"lsm.%s\": %s",
									def->name, text),
							 hint ? errhint("%s", _(hint)) : 0));
				return false;
			}
			if (*value >= def->min && *value <= def->max)
				return true;
			if (raise)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("value %s out of bounds for option \"lsm.%s\"", text, def->name),
						 errdetail("Valid values are between \"%s\" and \"%s\".",
								   lsm_option_format(def, def->min),
								   lsm_option_format(def, def->max))));
			return false;

		case LSM_OPTION_NAME:
			return false;		/* see lsm_option_canonical() */
	}
	return false;
}

/* A value as a label has it; an error if it is none. */
static char *
lsm_option_canonical(const LsmOptionDef *def, DefElem *elem)
{
	int			value;

	if (def->type == LSM_OPTION_NAME)
	{
		const char *name = elem->arg != NULL ? defGetString(elem) : "";

		if (name[0] == '\0' || strlen(name) >= NAMEDATALEN)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid value for option \"lsm.%s\": \"%s\"", def->name, name),
					 errdetail("Valid values are names.")));
		return pstrdup(name);
	}

	/* as the server has it: the name alone means true */
	(void) lsm_option_parse(def, elem->arg != NULL ? defGetString(elem) : "true", true, &value);
	return lsm_option_format(def, value);
}

static void
lsm_option_assign(const LsmOptionDef *def, int value, LsmTableOptions *options)
{
	char	   *field = (char *) options + def->field;

	if (def->type == LSM_OPTION_BOOL)
		*(bool *) field = value != 0;
	else
		*(int *) field = value;
}

static int
lsm_option_value(const LsmOptionDef *def, const LsmTableOptions *options)
{
	const char *field = (const char *) options + def->field;

	return def->type == LSM_OPTION_BOOL ? *(const bool *) field : *(const int *) field;
}

/* ---- lists of options, and the label ---- */

static DefElem *
lsm_options_member(List *given, const char *name)
{
	ListCell   *lc;

	foreach(lc, given)
	{
		if (strcmp(((DefElem *) lfirst(lc))->defname, name) == 0)
			return lfirst(lc);
	}
	return NULL;
}

/*
 * The options of a label, a list as the server reads such settings: items
 * separated by commas, quoted with " where they have commas or spaces in them.
 */
static List *
lsm_options_split(const char *label, bool raise)
{
	List	   *items;
	List	   *given = NIL;
	ListCell   *lc;

	if (!SplitGUCList(pstrdup(label), ',', &items))
	{
		if (raise)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid list of options: \"%s\"", label),
					 errhint("A label of provider \"lsm\" looks like \"name=value, name=value\".")));
		return NIL;
	}
	foreach(lc, items)
	{
		char	   *item = lfirst(lc);
		char	   *equals = strchr(item, '=');

		if (equals != NULL)
		{
			*equals = '\0';
			given = lappend(given, makeDefElem(item, (Node *) makeString(equals + 1), -1));
		}
		else
			/* as WITH (lsm.name) has it */
			given = lappend(given, makeDefElem(item, (Node *) makeString("true"), -1));
	}
	return given;
}

char *
lsm_options_join(List *given)
{
	StringInfoData label;
	ListCell   *lc;

	initStringInfo(&label);
	foreach(lc, given)
	{
		DefElem    *def = lfirst(lc);
		char	   *item = psprintf("%s=%s", def->defname, defGetString(def));

		if (label.len > 0)
			appendStringInfoString(&label, ", ");
		if (strpbrk(item, "\", \t\n\r\f\v") == NULL)
			appendStringInfoString(&label, item);
		else
		{
			appendStringInfoChar(&label, '"');
			for (const char *c = item; *c != '\0'; c++)
			{
				if (*c == '"')
					appendStringInfoChar(&label, '"');
				appendStringInfoChar(&label, *c);
			}
			appendStringInfoChar(&label, '"');
		}
	}
	return label.data;
}

List *
lsm_options_set(List *given, List *defs)
{
	List	   *result = NIL;
	List	   *added = NIL;
	ListCell   *lc;

	foreach(lc, defs)
	{
		DefElem    *elem = lfirst(lc);
		const LsmOptionDef *def = lsm_option_find(elem->defname);

		if (def == NULL)
			lsm_option_unrecognized(elem->defname);
		if (lsm_options_member(added, def->name) != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("parameter \"lsm.%s\" specified more than once", def->name)));
		added = lappend(added, makeDefElem(pstrdup(def->name),
										   (Node *) makeString(lsm_option_canonical(def, elem)),
										   -1));
	}
	foreach(lc, given)
	{
		if (lsm_options_member(added, ((DefElem *) lfirst(lc))->defname) == NULL)
			result = lappend(result, lfirst(lc));
	}
	return list_concat(result, added);
}

List *
lsm_options_reset(List *given, List *defs)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, defs)
	{
		char	   *name = ((DefElem *) lfirst(lc))->defname;

		/* an option of a later library can be reset where it is set */
		if (lsm_option_find(name) == NULL && lsm_options_member(given, name) == NULL)
			lsm_option_unrecognized(name);
	}
	foreach(lc, given)
	{
		if (lsm_options_member(defs, ((DefElem *) lfirst(lc))->defname) == NULL)
			result = lappend(result, lfirst(lc));
	}
	return result;
}

List *
lsm_options_from_label(const char *label)
{
	return lsm_options_set(NIL, lsm_options_split(label, true));
}

const char *
lsm_options_cold_store(List *given)
{
	DefElem    *elem = lsm_options_member(given, "cold_store");

	return elem == NULL || elem->arg == NULL ? NULL : strVal(elem->arg);
}

/* ---- tables ---- */

List *
lsm_options_load(Oid relid)
{
	ObjectAddress object;
	char	   *label;

	ObjectAddressSet(object, RelationRelationId, relid);
	label = GetSecurityLabel(&object, LSM_OPTIONS_NAMESPACE);
	return label == NULL ? NIL : lsm_options_split(label, false);
}

void
lsm_options_store(Relation rel, List *given)
{
	ObjectAddress object;

	ObjectAddressSet(object, RelationRelationId, RelationGetRelid(rel));
	SetSecurityLabel(&object, LSM_OPTIONS_NAMESPACE,
					 given == NIL ? NULL : lsm_options_join(given));
	CacheInvalidateRelcache(rel);
}

/* What a list of options means. */
static void
lsm_options_fill(List *given, LsmTableOptions *options)
{
	memset(options, 0, sizeof(*options));
	for (size_t i = 0; i < lengthof(option_defs); i++)
	{
		const LsmOptionDef *def = &option_defs[i];
		DefElem    *elem = lsm_options_member(given, def->name);
		int			value;

		if (def->type == LSM_OPTION_NAME)
		{
			if (elem != NULL && elem->arg != NULL)
				strlcpy((char *) options + def->field, strVal(elem->arg), NAMEDATALEN);
			continue;
		}
		if (elem == NULL ||
			!lsm_option_parse(def, elem->arg != NULL ? strVal(elem->arg) : "true", false, &value))
			value = def->preset;
		lsm_option_assign(def, value, options);
	}
}

void
lsm_options_get(Relation rel, LsmTableOptions *options)
{
	MemoryContext context;
	MemoryContext caller;
	Oid			owner = rel->rd_rel->relrewrite;

	if (rel->rd_amcache != NULL)
	{
		memcpy(options, rel->rd_amcache, sizeof(*options));
		return;
	}
	context = AllocSetContextCreate(CurrentMemoryContext, "lsm options", ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(context);
	lsm_options_fill(lsm_options_load(OidIsValid(owner) ? owner : RelationGetRelid(rel)),
					 options);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);

	/*
	 * Race: a change that committed before the label was read was read.  One
	 * that commits later sends its invalidation after that, so we shall meet
	 * it when the cache is filled.
	 */
	rel->rd_amcache = MemoryContextAlloc(CacheMemoryContext, sizeof(*options));
	memcpy(rel->rd_amcache, options, sizeof(*options));
}

bool
lsm_options_auto_compact(Relation rel)
{
	LsmTableOptions options;

	if (!lsm_auto_compact)
		return false;
	lsm_options_get(rel, &options);
	return options.auto_compact;
}

int
lsm_options_writer_level(const LsmTableOptions *options)
{
	if (options->compression == LSM_COMPRESSION_NONE)
		return 0;
	return options->compression_level != 0 ? options->compression_level : LSM_DEFAULT_LEVEL;
}

List *
lsm_options_show(Oid relid)
{
	List	   *given = lsm_options_load(relid);
	List	   *result = NIL;
	LsmTableOptions options;

	lsm_options_fill(given, &options);
	for (size_t i = 0; i < lengthof(option_defs); i++)
	{
		const LsmOptionDef *def = &option_defs[i];
		LsmOptionShown *shown = palloc(sizeof(LsmOptionShown));

		shown->name = def->name;
		shown->value = def->type == LSM_OPTION_NAME ?
			pstrdup((const char *) &options + def->field) :
			lsm_option_format(def, lsm_option_value(def, &options));
		shown->given = lsm_options_member(given, def->name) != NULL;
		result = lappend(result, shown);
	}
	return result;
}
