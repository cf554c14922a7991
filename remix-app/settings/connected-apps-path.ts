/** Where people see which apps hold something of their account. */
export const connectedAppsPath = "/settings/security/apps";
