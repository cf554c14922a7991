/** Where an owner sees and confirms everything that can open the account. */
export const accessPath = "/settings/security/access";

/** The same list, on the way to a path of ours. */
export function accessPathBefore(destination: string): string {
  if (destination.startsWith(`${accessPath}?`)) return destination;
  return `${accessPath}?${new URLSearchParams({ returnUrl: destination })}`;
}

/** Where people see which apps hold something of their account. */
export const connectedAppsPath = "/settings/security/apps";

/** Where linked accounts are shown. */
export const linkedAccountsPath = "/settings/security#linked-accounts";
