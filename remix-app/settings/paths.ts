/** The page where an owner reviews and confirms everything that can open the account. */
export const accessPath = "/settings/security/access";

/** Returns the path of the access page, with a destination to continue to. */
export function buildAccessPath(destination: string): string {
  if (destination.startsWith(`${accessPath}?`)) return destination;
  return `${accessPath}?${new URLSearchParams({ returnUrl: destination })}`;
}

/** The page that lists the apps with access to the account. */
export const connectedAppsPath = "/settings/security/apps";

export const linkedAccountsPath = "/settings/security#linked-accounts";
