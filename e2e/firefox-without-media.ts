#!/usr/bin/env node
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";

// Playwright launches this program instead of the Firefox that FIREFOX_BIN names. It starts Firefox and forwards
// WebDriver BiDi. It answers the command that Playwright always sends and Firefox 153 does not know.
const unknownCommand = "emulation.setMediaFeaturesOverride";
/** Completes the key of a WebSocket's handshake (RFC 6455, 1.3). */
const handshakeSuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const finalText = 0x81;

const firefox = spawn(process.env.FIREFOX_BIN ?? "firefox", process.argv.slice(2), {
  stdio: ["ignore", "inherit", "pipe"],
});
firefox.once("exit", (code) => process.exit(code ?? 1));
let log = "";
firefox.stderr.setEncoding("utf8").on("data", (chunk: string) => {
  log += chunk;
  const lines = log.split("\n");
  log = lines.pop() ?? "";
  for (const line of lines) {
    const address = /^WebDriver BiDi listening on (ws:.*)$/.exec(line)?.[1];
    if (address) listen(address);
    else console.error(line);
  }
});

/** Opens a port for Playwright, and tells it in Firefox's own words. */
function listen(address: string): void {
  const server = createServer();
  server.on("upgrade", ({ headers, url }, socket: Duplex) => {
    const accept = createHash("sha1").update(`${headers["sec-websocket-key"]}${handshakeSuffix}`).digest("base64");
    const browser = new WebSocket(`${address}${url}`);
    const toBrowser = (text: string) => browser.send(text);
    browser.onopen = () => {
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
      );
      readMessages(socket, (text) => {
        const { id, method } = JSON.parse(text) as { id: number; method: string };
        if (method === unknownCommand) socket.write(frame(JSON.stringify({ type: "success", id, result: {} })));
        else toBrowser(text);
      });
    };
    browser.onmessage = ({ data }) => socket.write(frame(String(data)));
    browser.onclose = () => socket.destroy();
    socket.on("close", () => browser.close()).on("error", () => browser.close());
  });
  server.listen(0, "127.0.0.1", () => {
    console.error(`WebDriver BiDi listening on ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
}

/** Calls `receive` with each message. Playwright masks its frames and does not split messages (RFC 6455, 5.2). */
function readMessages(socket: Duplex, receive: (text: string) => void): void {
  let buffer = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    buffer = Buffer.concat([buffer, chunk]);
    while (buffer.length >= 2) {
      const short = buffer.readUInt8(1) & 0x7f;
      const maskAt = short === 127 ? 10 : short === 126 ? 4 : 2;
      if (buffer.length < maskAt + 4) return;
      const length = short === 127 ? Number(buffer.readBigUInt64BE(2)) : short === 126 ? buffer.readUInt16BE(2) : short;
      const end = maskAt + 4 + length;
      if (buffer.length < end) return;
      const mask = buffer.subarray(maskAt, maskAt + 4);
      const payload = buffer.subarray(maskAt + 4, end).map((byte, index) => byte ^ (mask[index % 4] ?? 0));
      if (buffer.readUInt8(0) === finalText) receive(Buffer.from(payload).toString());
      else socket.end();
      buffer = buffer.subarray(end);
    }
  });
}

function frame(text: string): Buffer {
  const payload = Buffer.from(text);
  const head = Buffer.alloc(10);
  head.writeUInt8(finalText);
  head.writeUInt8(127, 1);
  head.writeBigUInt64BE(BigInt(payload.length), 2);
  return Buffer.concat([head, payload]);
}
