import { appScopes } from "../apps/app-rights.ts";

const profileRight = appScopes.find(({ scope }) => scope === "profile")?.right;

/** What a client was granted: scopes and, unless the tokens are for the platform, the names of the apps they are for. */
export interface GrantedAccess {
  scopes: readonly string[];
  resources?: readonly string[];
}

/**
 * Describes what an OpenID client may see and do, for the person who is asked for consent.
 * @param product the name of this product, which the descriptions mention
 */
export function describeScopeRights({ scopes, resources = [] }: GrantedAccess, product: string): string[] {
  const [profile, email] = [scopes.includes("profile"), scopes.includes("email")];
  const profileText = profile
    ? email && profileRight
      ? profileRight
      : "See your name and picture"
    : email
      ? "See your email"
      : "Recognize your account, without your name or email";
  const scopeTexts = appScopes.flatMap(({ scope, right }) =>
    right && scope !== "profile" && scopes.includes(scope) ? [right] : [],
  );
  // Access to an app is always renewable.
  const renewalTexts =
    scopes.includes("offline_access") || resources.length > 0
      ? [`Stay connected for up to 30 days, unless you sign out of ${product} or disconnect the app first`]
      : [];
  return [...resources.map((name) => `Use ${name} on your behalf`), profileText, ...scopeTexts, ...renewalTexts];
}
