import { appScopes } from "../satellites/app-rights.ts";

const profileRight = appScopes.find(({ scope }) => scope === "profile")?.right;

/** Returns what an OpenID client may see and do with these scopes, in words for the person who is asked. */
export function rightsOfScopes(scopes: readonly string[]): string[] {
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
    ? ["Renew its access until you sign out here or disconnect it"]
    : [];
  return [person, ...others, ...renewal];
}
