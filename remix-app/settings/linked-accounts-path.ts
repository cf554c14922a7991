/** Where linked accounts are shown. */
export const linkedAccountsPath = "/settings/security#linked-accounts";
