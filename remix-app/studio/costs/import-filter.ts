import { isExternalId, isLabel } from "#shared/labels.ts";
import { problem } from "../../http/problem.ts";

/** Selects imports by provider and account. A null accountId selects records without an account. */
export interface ImportFilter {
  provider?: string;
  accountId?: string | null;
  /** Selects invoices with days in this month, YYYY-MM. */
  month?: string;
}

const monthPattern = /^(?!0000)\d{4}-(0[1-9]|1[0-2])$/;

/**
 * Reads the filters of an imports page from its URL: `provider`, `account`, `noAccount` (records without an account)
 * and `month` (lists by month).
 * @throws Response 400 INVALID_REQUEST for values that no record can have
 */
export function readImportFilter(url: URL, { requestId }: { requestId: string }): ImportFilter {
  const given = (name: string) => url.searchParams.get(name) || undefined;
  const [provider, account, month] = [given("provider"), given("account"), given("month")];
  const known =
    (provider === undefined || isLabel(provider)) &&
    (account === undefined || isExternalId(account)) &&
    (month === undefined || monthPattern.test(month));
  if (!known) {
    throw problem("INVALID_REQUEST", { requestId, detail: "This filter isn’t valid. Go back and choose another." });
  }
  return {
    ...(provider ? { provider } : {}),
    ...(given("noAccount") ? { accountId: null } : account ? { accountId: account } : {}),
    ...(month ? { month } : {}),
  };
}

/** Returns the query parameters that {@link readImportFilter} reads as this filter. */
export function writeImportFilter({ provider, accountId }: ImportFilter): Record<string, string> {
  return {
    ...(provider ? { provider } : {}),
    ...(accountId ? { account: accountId } : accountId === null ? { noAccount: "1" } : {}),
  };
}
