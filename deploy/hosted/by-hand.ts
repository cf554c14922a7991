import type { AuthFields } from "./auth-settings.ts";
import type { Project } from "./project.ts";
import type { WebSettings } from "./settings.ts";

/** Lists what the Management API cannot set, or what only a person can decide. */
export function listByHand(options: {
  project: Project;
  web: WebSettings;
  auth: AuthFields;
  /** Settings that the project's plan lacks. */
  lacking: readonly string[];
  functions: Record<string, string>;
}): string[] {
  const { project, web, auth, lacking, functions } = options;
  const page = `https://supabase.com/dashboard/project/${project.ref}`;
  const isOn = (field: string) => (auth[field] ?? project.auth[field]) === true;
  const items = web.OAUTH_PROVIDERS.filter((name) => !isOn(`external_${name}_enabled`)).map(
    (name) => `Turn on ${name}, with --backend or here: ${page}/auth/providers`,
  );
  if (web.OAUTH_PROVIDERS.length > 0)
    items.push(
      `At each sign-in provider, enter https://${project.ref}.supabase.co/auth/v1/callback as its callback URL.`,
    );
  if (isOn("security_captcha_enabled") !== (web.TURNSTILE_SITE_KEY !== undefined))
    items.push(`TURNSTILE_SITE_KEY and the captcha need each other: ${page}/auth/protection`);
  if (lacking.length > 0)
    items.push(`The project's plan lacks ${lacking.join(", ")} (docs/abuse.md): ${page}/settings/billing/subscription`);
  const left = [...project.secretDigests.keys()].filter((name) => /^(AI|GATEWAY)_/.test(name) && !functions[name]);
  if (left.length > 0)
    items.push(
      `Remove old function secrets: npx supabase secrets unset ${left.join(" ")} --project-ref ${project.ref}`,
    );
  items.push(`Once nothing uses the legacy API keys, disable them: ${page}/settings/api-keys`);
  items.push(`Once their tokens have expired, revoke earlier signing keys: ${page}/settings/jwt`);
  return items;
}
