/** Where people see which apps hold something of their account. */
export const connectedAppsPath = "/settings/security/apps";

/** Where linked accounts are shown. */
export const linkedAccountsPath = "/settings/security#linked-accounts";
