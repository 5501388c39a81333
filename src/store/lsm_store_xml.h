/*-------------------------------------------------------------------------
 *
 * lsm_store_xml.h
 *	  Reads the small XML documents in which S3 answers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_STORE_XML_H
#define LSM_STORE_XML_H

/*
 * Called where an element begins (text NULL) and where it ends, with the text that lies
 * between its last tag and its end.  path: the names from the root on, divided by slashes,
 * without prefixes of namespaces.
 */
typedef void (*LsmXmlHandler) (void *arg, const char *path, const char *text);

/*
 * NULL, or what is wrong with the document, of which the handler may then have seen the
 * beginning.  The data must end in a zero byte that len does not count, and is changed.
 */
extern const char *lsm_xml_parse(char *data, size_t len, LsmXmlHandler handler, void *arg);

#endif							/* LSM_STORE_XML_H */
