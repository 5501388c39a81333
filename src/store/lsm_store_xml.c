/*-------------------------------------------------------------------------
 *
 * lsm_store_xml.c
 *	  Reads the small XML documents in which S3 answers.
 *
 * They come from the network, so this knows as little XML as will do: elements,
 * attributes (which it skips), text, the five entities and character references.
 * No document types, hence no entities that grow, and nothing that leads elsewhere;
 * no processing instructions but the one at the start; comments and CDATA sections
 * are refused.  Names and depth are bounded, memory is that of the document.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_store_xml.h"
#include "mb/pg_wchar.h"

#define LSM_XML_MAX_DEPTH		16
#define LSM_XML_MAX_PATH		256

typedef struct LsmXml
{
	char	   *at;
	char	   *end;
	char		path[LSM_XML_MAX_PATH];
	int			path_len;
	int			depth;
	int			starts[LSM_XML_MAX_DEPTH];	/* length of path before each name */
	LsmXmlHandler handler;
	void	   *arg;
} LsmXml;

static bool
lsm_xml_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool
lsm_xml_is_name(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
		c == '_' || c == '-' || c == '.' || c == ':';
}

static void
lsm_xml_skip_space(LsmXml *xml)
{
	while (xml->at < xml->end && lsm_xml_is_space(*xml->at))
		xml->at++;
}

/* A name, without its namespace: its length, 0 if there is none. */
static size_t
lsm_xml_name(LsmXml *xml, char **name)
{
	*name = xml->at;
	while (xml->at < xml->end && lsm_xml_is_name(*xml->at))
	{
		if (*xml->at == ':')
			*name = xml->at + 1;
		xml->at++;
	}
	return xml->at - *name;
}

/* One reference, behind its ampersand, is written to *out as what it stands for. */
static const char *
lsm_xml_reference(char **in, char *end, char **out)
{
	static const struct
	{
		const char *name;
		char		c;
	}			entities[] = {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'},
	{"apos;", '\''}};
	char	   *at = *in;
	int			base = 10;
	uint32		code = 0;
	char	   *digits;

	for (int i = 0; i < (int) lengthof(entities); i++)
	{
		size_t		len = strlen(entities[i].name);

		if ((size_t) (end - at) >= len && memcmp(at, entities[i].name, len) == 0)
		{
			*(*out)++ = entities[i].c;
			*in = at + len;
			return NULL;
		}
	}
	if (at >= end || *at++ != '#')
		return "unknown entity";
	if (at < end && *at == 'x')
	{
		base = 16;
		at++;
	}
	for (digits = at; at < end && *at != ';'; at++)
	{
		int			digit = *at >= '0' && *at <= '9' ? *at - '0' :
		*at >= 'a' && *at <= 'f' ? *at - 'a' + 10 :
		*at >= 'A' && *at <= 'F' ? *at - 'A' + 10 : 16;

		if (digit >= base)
			return "bad character reference";
		code = code * base + digit;
		if (code > 0x10FFFF)
			return "bad character reference";
	}
	if (at >= end || at == digits || code == 0 || (code >= 0xD800 && code <= 0xDFFF))
		return "bad character reference";

	/* Never longer than the reference itself was. */
	unicode_to_utf8(code, (unsigned char *) *out);
	*out += pg_utf_mblen((unsigned char *) *out);
	*in = at + 1;
	return NULL;
}

/* Text up to the next tag, decoded in its place and ended by a zero byte. */
static const char *
lsm_xml_text(LsmXml *xml, char **text)
{
	char	   *out = xml->at;

	*text = out;
	while (xml->at < xml->end && *xml->at != '<')
	{
		if (*xml->at == '\0')
			return "zero byte";
		if (*xml->at == '&')
		{
			const char *problem;

			xml->at++;
			problem = lsm_xml_reference(&xml->at, xml->end, &out);
			if (problem)
				return problem;
		}
		else
			*out++ = *xml->at++;
	}
	if (xml->at >= xml->end)
		return xml->depth > 0 ? "end within an element" : NULL;

	/* The byte of the "<" may be overwritten: it has been seen. */
	xml->at++;
	*out = '\0';
	return NULL;
}

static const char *
lsm_xml_push(LsmXml *xml, const char *name, size_t len)
{
	if (xml->depth == LSM_XML_MAX_DEPTH)
		return "elements nested too deeply";
	if (xml->path_len + len + 2 > LSM_XML_MAX_PATH)
		return "names too long";
	xml->starts[xml->depth++] = xml->path_len;
	if (xml->path_len > 0)
		xml->path[xml->path_len++] = '/';
	memcpy(xml->path + xml->path_len, name, len);
	xml->path_len += len;
	xml->path[xml->path_len] = '\0';
	xml->handler(xml->arg, xml->path, NULL);
	return NULL;
}

static void
lsm_xml_pop(LsmXml *xml, const char *text)
{
	xml->handler(xml->arg, xml->path, text);
	xml->path_len = xml->starts[--xml->depth];
	xml->path[xml->path_len] = '\0';
}

/* Behind the "<" of a tag that begins an element. */
static const char *
lsm_xml_begin_tag(LsmXml *xml)
{
	char	   *name;
	size_t		len = lsm_xml_name(xml, &name);
	const char *problem;

	if (len == 0)
		return "markup that is not expected";
	problem = lsm_xml_push(xml, name, len);
	if (problem)
		return problem;
	for (;;)
	{
		char		quote;
		char	   *close;

		lsm_xml_skip_space(xml);
		if (xml->at < xml->end && *xml->at == '>')
		{
			xml->at++;
			return NULL;
		}
		if (xml->end - xml->at >= 2 && xml->at[0] == '/' && xml->at[1] == '>')
		{
			xml->at += 2;
			lsm_xml_pop(xml, "");
			return NULL;
		}
		if (lsm_xml_name(xml, &name) == 0)
			return "bad tag";
		lsm_xml_skip_space(xml);
		if (xml->at >= xml->end || *xml->at++ != '=')
			return "bad attribute";
		lsm_xml_skip_space(xml);
		if (xml->at >= xml->end)
			return "bad attribute";
		quote = *xml->at++;
		if (quote != '"' && quote != '\'')
			return "bad attribute";
		close = memchr(xml->at, quote, xml->end - xml->at);
		if (close == NULL)
			return "bad attribute";
		xml->at = close + 1;
	}
}

/* Behind the "</" of a tag that ends an element. */
static const char *
lsm_xml_end_tag(LsmXml *xml, const char *text)
{
	char	   *name;
	size_t		len = lsm_xml_name(xml, &name);
	int			start;

	if (xml->depth == 0)
		return "end of an element that has not begun";
	start = xml->starts[xml->depth - 1] + (xml->depth > 1 ? 1 : 0);
	if (len != (size_t) (xml->path_len - start) || memcmp(xml->path + start, name, len) != 0)
		return "end of another element";
	lsm_xml_skip_space(xml);
	if (xml->at >= xml->end || *xml->at++ != '>')
		return "bad tag";
	lsm_xml_pop(xml, text);
	return NULL;
}

const char *
lsm_xml_parse(char *data, size_t len, LsmXmlHandler handler, void *arg)
{
	LsmXml		xml = {0};
	bool		begun = false;

	xml.at = data;
	xml.end = data + len;
	xml.handler = handler;
	xml.arg = arg;
	if (len >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0)
		xml.at += 3;
	lsm_xml_skip_space(&xml);
	if (xml.end - xml.at >= 5 && memcmp(xml.at, "<?xml", 5) == 0)
	{
		char	   *close = strstr(xml.at, "?>");

		if (close == NULL)
			return "bad declaration";
		xml.at = close + 2;
	}
	for (;;)
	{
		char	   *text;
		const char *problem = NULL;

		if (xml.depth == 0)
		{
			lsm_xml_skip_space(&xml);
			if (xml.at >= xml.end)
				return begun ? NULL : "no element";
			if (begun || *xml.at != '<')
				return begun ? "more than one element" : "text outside of elements";
		}
		problem = lsm_xml_text(&xml, &text);
		if (problem)
			return problem;
		begun = true;
		if (xml.at < xml.end && *xml.at == '/')
		{
			xml.at++;
			problem = lsm_xml_end_tag(&xml, text);
		}
		else
			problem = lsm_xml_begin_tag(&xml);
		if (problem)
			return problem;
	}
}
