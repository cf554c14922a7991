import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { selfSigned } from "./certificate.ts";

/**
 * Starts a server for hosts that are hard-coded in the servers under test. Those servers trust its certificate, and
 * reach the hosts through a local proxy (RFC 9110 section 9.3.6) that refuses all other hosts.
 * @returns the environment variables that make a Go or Node server use the proxy and the certificate
 */
export async function startInternet(hosts: Readonly<Record<string, RequestListener>>) {
  const { key, certificate } = selfSigned(Object.keys(hosts));
  const directory = await mkdtemp(path.join(tmpdir(), "identity-contract-internet-"));
  const certificateFile = path.join(directory, "certificate.pem");
  await writeFile(certificateFile, certificate);
  const site = createTlsServer({ key, cert: certificate }, (request, response) => {
    const serve = hosts[request.headers.host ?? ""];
    if (serve) serve(request, response);
    else response.writeHead(421).end();
  });
  const sitePort = await listen(site);
  const proxy = createServer((_request, response) => response.writeHead(403).end());
  proxy.on("connect", (request, socket) => {
    const [host = "", port] = (request.url ?? "").split(":");
    socket.on("error", () => socket.destroy());
    if (!(host in hosts) || port !== "443") return socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
    const upstream = connect(sitePort, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      upstream.pipe(socket).pipe(upstream);
    });
    upstream.on("error", () => socket.destroy());
  });
  const proxyPort = await listen(proxy);
  return {
    environment: {
      HTTPS_PROXY: `http://127.0.0.1:${proxyPort}`,
      SSL_CERT_FILE: certificateFile,
      NODE_USE_ENV_PROXY: "1",
      NODE_EXTRA_CA_CERTS: certificateFile,
    },
    async stop() {
      for (const server of [proxy, site]) {
        server.closeAllConnections();
        server.close();
      }
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("a server has no address");
  return address.port;
}
