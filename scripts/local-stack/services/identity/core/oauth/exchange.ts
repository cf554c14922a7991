import { z } from "zod";
import type { ProviderConfig } from "../../config/providers.ts";
import type { Provider, Tokens } from "./profile.ts";

const timeoutMs = 10_000;

const tokenResponse = z.looseObject({
  access_token: z.string().min(1),
  refresh_token: z.string().nullish(),
  id_token: z.string().nullish(),
});

/**
 * Exchanges a code at the provider, RFC 6749 section 4.1.3, with the client's secret as section 2.3.1 prefers.
 * @throws Error when the provider refuses or answers with something else
 */
export async function exchangeProviderCode(
  { tokenUrl }: Provider,
  { config, code }: { config: ProviderConfig; code: string },
): Promise<Tokens> {
  const credentials = `${encodeURIComponent(config.clientId)}:${encodeURIComponent(config.secret)}`;
  const response = await fetch(tokenUrl, {
    method: "POST",
    headers: {
      Accept: "application/json",
      Authorization: `Basic ${Buffer.from(credentials).toString("base64")}`,
    },
    body: new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri: config.redirectUri }),
    signal: AbortSignal.timeout(timeoutMs),
  });
  if (!response.ok) throw new Error(`The provider's token endpoint answered ${response.status}`);
  const tokens = tokenResponse.parse(await response.json());
  return {
    accessToken: tokens.access_token,
    refreshToken: tokens.refresh_token ?? "",
    idToken: tokens.id_token ?? "",
  };
}

/** Reads a resource of the provider with the user's token. @throws Error when it is refused or of another shape */
export async function fetchResource<Schema extends z.ZodType>(
  url: string,
  { accessToken, schema }: { accessToken: string; schema: Schema },
): Promise<z.output<Schema>> {
  const response = await fetch(url, {
    headers: { Accept: "application/json", Authorization: `Bearer ${accessToken}` },
    signal: AbortSignal.timeout(timeoutMs),
  });
  if (!response.ok) throw new Error(`${new URL(url).pathname} of the provider answered ${response.status}`);
  return schema.parse(await response.json());
}
