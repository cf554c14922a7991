import { createServer } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { exportJWK, generateKeyPair } from "jose";
import { installBelow } from "../../install.ts";

/**
 * Serves `oidc-provider` from npm, which keeps everything in memory. Sends the parent process the tokens of one account
 * on request.
 */
type Token = new (values: object) => { addOIDCScope: (scope: string) => void; save: () => Promise<string> };
type Provider = Record<"Grant" | "AccessToken" | "RefreshToken", Token> & {
  Client: { find: (id: string) => Promise<object> };
  callback: () => Parameters<typeof createServer>[1];
};

/** Unlike the package's own store, never drops a token. */
class Store {
  readonly #model: string;
  static readonly entries = new Map<string, object>();
  constructor(model: string) {
    this.#model = model;
  }
  async upsert(id: string, payload: object) {
    Store.entries.set(`${this.#model} ${id}`, payload);
  }
  async find(id: string) {
    return Store.entries.get(`${this.#model} ${id}`);
  }
}

const folder = await installBelow(".", {
  name: "peers/oidc-provider",
  manifest: { dependencies: { "oidc-provider": "9.13.3" } },
});
const module = createRequire(path.resolve(folder, "package.json")).resolve("oidc-provider");
const { default: Provider } = (await import(pathToFileURL(module).href)) as {
  default: new (issuer: string, configuration: object) => Provider;
};

const { PORT = "" } = process.env;
const client = { client_id: "bench", client_secret: "bench", grant_types: ["authorization_code", "refresh_token"] };
const { privateKey } = await generateKeyPair("RS256", { extractable: true });
const provider = new Provider(`http://127.0.0.1:${PORT}`, {
  adapter: Store,
  jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: "RS256", use: "sig", kid: "bench" }] },
  clients: [{ ...client, redirect_uris: ["https://client.example/callback"] }],
  cookies: { keys: ["bench"] },
  claims: { profile: ["name"] },
  features: { devInteractions: { enabled: false } },
  findAccount: (_: unknown, sub: string) => ({ accountId: sub, claims: () => ({ sub, name: "Demo" }) }),
  // A load sends the same refresh token again and again.
  rotateRefreshToken: false,
});

async function issueTokens() {
  const [accountId, scope] = ["demo", "openid profile offline_access"];
  const grant = new provider.Grant({ accountId, clientId: client.client_id });
  grant.addOIDCScope(scope);
  const values = {
    ...{ accountId, scope, grantId: await grant.save(), client: await provider.Client.find(client.client_id) },
    gty: "authorization_code",
  };
  return {
    accessToken: await new provider.AccessToken(values).save(),
    refreshToken: await new provider.RefreshToken(values).save(),
  };
}

process.on("message", async () => process.send?.(await issueTokens()));
process.channel?.unref();
createServer(provider.callback()).listen(Number(PORT), "127.0.0.1");
