import { createServer } from "node:http";
import { z } from "zod";
import { createOidcHandler } from "./handler.ts";

const environment = z.object({
  PORT: z.coerce.number().int(),
  HOST: z.string().default("127.0.0.1"),
  OIDC_ISSUER: z.url(),
  OIDC_CLIENT_ID: z.string().min(1),
  OIDC_CLIENT_SECRET: z.string().min(1),
  OIDC_REDIRECT_URI: z.url(),
});

const parsed = environment.safeParse(process.env);
if (!parsed.success) {
  console.error(`The OpenID provider's environment is incomplete:\n${z.prettifyError(parsed.error)}`);
  process.exit(1);
}
const { PORT, HOST, OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET, OIDC_REDIRECT_URI } = parsed.data;
const handler = await createOidcHandler({
  origin: OIDC_ISSUER,
  client: { id: OIDC_CLIENT_ID, secret: OIDC_CLIENT_SECRET, redirectUri: OIDC_REDIRECT_URI },
  log: (line) => console.error(`OpenID provider error: ${line}`),
});
const server = createServer(handler);
server.once("error", (error) => {
  console.error(`The OpenID provider cannot listen on ${HOST}:${PORT}: ${error.message}`);
  process.exit(1);
});
server.listen(PORT, HOST, () => console.log(`OpenID provider listens on ${OIDC_ISSUER}`));

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(0));
