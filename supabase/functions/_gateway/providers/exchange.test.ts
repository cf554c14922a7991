import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const root = path.resolve(import.meta.dirname, "../../../..");
const deno = path.join(root, "node_modules/deno/deno");

/** What the functions' own runtime makes of calls one after another: each answer, or why there is none. */
async function postInDeno(url: string, calls: number): Promise<string[]> {
  const program = `
    const { post } = await import(${JSON.stringify(path.join(import.meta.dirname, "exchange.ts"))});
    for (let call = 0; call < ${calls}; call++) {
      try {
        const { read } = await post(${JSON.stringify(url)}, {}, "{}").answer;
        let text = "";
        for (let bytes = await read(); bytes; bytes = await read()) text += new TextDecoder().decode(bytes);
        console.log(text);
      } catch (error) {
        console.log(error.code);
      }
    }
    Deno.exit(0);`;
  const { stdout } = await promisify(execFile)(deno, ["eval", program], { cwd: root });
  return stdout.trim().split("\n");
}

test("a request is sent once, even where the connection that it reuses is reset under it", async () => {
  const asked: number[] = [];
  let connections = 0;
  const server = createServer((request, response) => {
    asked.push(connections);
    request.resume().once("end", () => {
      if (asked.length === 2) request.socket.resetAndDestroy();
      else response.end(`answer ${asked.length}`);
    });
  }).on("connection", () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const { port } = server.address() as AddressInfo;
    expect(await postInDeno(`http://127.0.0.1:${port}/`, 3)).toEqual(["answer 1", "ECONNRESET", "answer 3"]);
    // The one that failed was on the first connection, too.
    expect(asked).toEqual([1, 1, 2]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
