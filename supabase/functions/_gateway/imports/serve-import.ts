import { parseExactJson } from "../../_shared/exact-json.ts";
import { readCaller, readLabels } from "../admission/labels.ts";
import { readOrAuthenticate } from "../admission/read-or-authenticate.ts";
import type { Caller } from "../database.ts";
import type { Gateway } from "../gateway.ts";
import { parseJson } from "../http/body.ts";
import type { Handler } from "../http/router.ts";

/** What an import takes and does with it. */
type Import<Imported> = {
  limitBytes: number;
  /** @throws GatewayError naming the field */
  read: (value: unknown) => Imported;
  /** @returns the answer's body */
  store: (asked: { caller: Caller; imported: Imported; requestId: string }) => Promise<object>;
};

/**
 * Serves an import: credential's syntax, body as it arrives, credential and app, JSON, schema, then one
 * statement. Nothing is executed, reserved or debited.
 */
export function serveImport<Imported>(gateway: Gateway, { limitBytes, read, store }: Import<Imported>): Handler {
  return async ({ request, requestId }) => {
    const caller = await readCaller(gateway, request);
    const check = () => gateway.database.checkAppCaller(caller);
    const body = await gateway.readBody(request, { limitBytes, check });
    try {
      const imported = await readOrAuthenticate(check, () => {
        readLabels(request);
        return read(parseJson(request, body.bytes, { parse: parseExactJson }));
      });
      return Response.json(await store({ caller, imported, requestId }));
    } finally {
      body.release();
    }
  };
}
