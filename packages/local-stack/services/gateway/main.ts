import { createAdaptorServer } from "@hono/node-server";
import { createDataApi } from "../data-api/data-api.ts";
import { createGateway } from "./app.ts";
import { readConfig } from "./config.ts";
import { createTokenVerifier } from "./user-tokens.ts";

/** How long running requests may continue after we are asked to stop. */
const stopTimeoutMs = 5_000;

const config = readConfig(process.env);
const dataApi = createDataApi({ databaseUrl: config.databaseUrl, schemas: config.schemas });
const verify = createTokenVerifier({
  jwksUrl: new URL(`${config.identityUrl}/.well-known/jwks.json`),
  issuer: config.issuer,
  audience: "authenticated",
});
/** Longer than clients keep idle connections, so that no client sends a request on a connection that we are closing. */
const keepAliveTimeout = 65_000;
/** Extra time before we close an idle connection, as in our web server. */
const keepAliveTimeoutBuffer = 60_000;
/**
 * Twice Node's default, as in our web server. Node itself answers requests with longer headers, so the error response
 * does not have the API's format.
 */
const maxHeaderSize = 32 * 1024;
const server = createAdaptorServer({
  fetch: createGateway({ config, dataApi, verify }).fetch,
  serverOptions: { keepAliveTimeout, keepAliveTimeoutBuffer, maxHeaderSize },
});

server.listen(config.port, config.host, () => console.log(`gateway listens on http://${config.host}:${config.port}`));
server.once("error", (error) => {
  console.error(`The gateway cannot listen on ${config.host}:${config.port}: ${error.message}`);
  process.exit(1);
});

let stopping = false;
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  setTimeout(() => process.exit(0), stopTimeoutMs).unref();
  await new Promise((resolve) => server.close(resolve));
  await dataApi.close();
  process.exit(0);
}
process.on("SIGTERM", stop);
process.on("SIGINT", stop);
