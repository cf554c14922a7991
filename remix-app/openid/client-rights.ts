import { appScopes } from "../satellites/app-rights.ts";

const profileRight = appScopes.find(({ scope }) => scope === "profile")?.right;

/**
 * Describes what an OpenID client may see and do with these scopes, for the person who is asked for consent.
 * @param product the name of this product, which the descriptions mention
 */
export function rightsOfScopes(scopes: readonly string[], product: string): string[] {
  const [profile, email] = [scopes.includes("profile"), scopes.includes("email")];
  const person = profile
    ? email && profileRight
      ? profileRight
      : "See your name and picture"
    : email
      ? "See your email"
      : "Recognize your account, without your name or email";
  const others = appScopes.flatMap(({ scope, right }) =>
    right && scope !== "profile" && scopes.includes(scope) ? [right] : [],
  );
  const renewal = scopes.includes("offline_access")
    ? [`Stay connected for up to 30 days, unless you sign out of ${product} or disconnect the app first`]
    : [];
  return [person, ...others, ...renewal];
}
