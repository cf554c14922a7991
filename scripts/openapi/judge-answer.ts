import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";

/** A response that was received over the network. */
export interface LiveAnswer {
  method: string;
  /** The path without its query. */
  path: string;
  status: number;
  contentType: string | null;
  requestId: string | null;
  text: string;
}

interface Described {
  paths: Record<string, Record<string, { operationId: string; responses: Record<string, Response | Reference> }>>;
  components: { responses: Record<string, Response>; schemas: Record<string, object> };
}
type Reference = { $ref: string };
type Response = { content?: Record<string, { schema?: object }> };

const formats = {
  uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/,
  date: /^\d{4}-\d\d-\d\d$/,
  uri: (text: string) => URL.canParse(text),
  email: /@/,
};

/** Matches a time with an offset. Times in responses must be in UTC with Z, even in undescribed fields. */
const elsewhere = /"\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:\d\d"/;

/** Checks live responses against a document. The status, content type and every field must be described. */
export function createAnswerJudge(document: object) {
  const { paths, components } = document as Described;
  const ajv = new Ajv2020({ strict: false, allErrors: true, formats });
  ajv.addSchema({ $id: "document", components });
  const patterns = Object.entries(paths).map(([path, methods]) => ({
    // Literal paths take precedence over paths with parameters.
    parameters: path.split("{").length,
    matches: new RegExp(`^${path.replaceAll(/[.]/g, "\\.").replaceAll(/\{\w+\}/g, "[^/]+")}$`),
    methods,
  }));
  patterns.sort((a, b) => a.parameters - b.parameters);

  function operationOf({ method, path }: Pick<LiveAnswer, "method" | "path">) {
    const found = patterns.find(({ matches }) => matches.test(path));
    return found?.methods[method === "HEAD" ? "get" : method.toLowerCase()];
  }

  const compiled = new Map<object, ValidateFunction>();
  function validatorOf(schema: object): ValidateFunction {
    const known = compiled.get(schema);
    const valid = known ?? ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/')));
    compiled.set(schema, valid);
    return valid;
  }

  return {
    operationOf,
    /** @returns what is wrong with the response; empty if it matches */
    judge(answer: LiveAnswer): string[] {
      const operation = operationOf(answer);
      if (!operation) return ["not described"];
      const { operationId, responses } = operation;
      const described = responses[answer.status];
      if (!described) return [`${operationId}: status ${answer.status} is not described`];
      const name = "$ref" in described ? (described.$ref.split("/").at(-1) ?? "") : undefined;
      const { content } = name === undefined ? (described as Response) : (components.responses[name] ?? {});
      if (!answer.requestId) return [`${operationId}: no x-request-id`];
      if (answer.method === "HEAD" || !content) {
        return answer.text === "" || !content ? [] : [`${operationId}: HEAD has a body`];
      }
      const time = elsewhere.exec(answer.text)?.[0];
      if (time) return [`${operationId}: the time ${time} is not in UTC with Z`];
      const type = (answer.contentType ?? "").split(";")[0]?.trim() ?? "";
      const media = content[type];
      if (!media) return [`${operationId}: ${answer.status} as ${type || "nothing"} is not described`];
      if (!media.schema) return [];
      const valid = validatorOf(media.schema);
      if (valid(JSON.parse(answer.text))) return [];
      return (valid.errors ?? []).map(
        ({ instancePath, message, params }) =>
          `${operationId} ${answer.status}${instancePath}: ${message} ${JSON.stringify(params)}`,
      );
    },
  };
}
