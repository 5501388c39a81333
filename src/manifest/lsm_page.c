/*-------------------------------------------------------------------------
 *
 * lsm_page.c
 *	  What all pages have: a special area that says what a page is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lsm_page.h"

void
lsm_page_init(Page page, uint16 kind, uint64 uid, uint32 number, uint32 generation)
{
	LsmPageSpecial *special;

	PageInit(page, BLCKSZ, sizeof(LsmPageSpecial));
	special = LSM_PAGE_SPECIAL(page);
	special->uid = uid;
	special->number = number;
	special->generation = generation;
	special->kind = kind;
	special->version = LSM_FORMAT_VERSION;
	special->before = 0;
}

/* Has a page the shape of lsm's? */
bool
lsm_page_is_ours(Page page)
{
	PageHeader	header = (PageHeader) page;

	return !PageIsNew(page) &&
		header->pd_special == BLCKSZ - MAXALIGN(sizeof(LsmPageSpecial)) &&
		header->pd_upper >= MAXALIGN(SizeOfPageHeaderData) &&
		header->pd_upper <= header->pd_special;
}

/* Does the page prove to be what the caller expects? */
bool
lsm_page_is(Page page, uint16 kind, uint64 uid, uint32 number, uint32 generation)
{
	LsmPageSpecial *special;

	if (!lsm_page_is_ours(page))
		return false;
	special = LSM_PAGE_SPECIAL(page);
	return special->kind == kind && special->uid == uid &&
		special->number == number && special->generation == generation &&
		special->version == LSM_FORMAT_VERSION;
}
