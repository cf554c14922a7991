import { z } from "zod";
import { problem } from "../http/problem.ts";

/** The database's refusal of a model list that names models outside the catalogue. */
export const unknownModels = z.object({
  outcome: z.literal("unknown_models"),
  param: z.enum(["allowedModels", "deniedModels", "modelLimits"]),
  models: z.array(z.string()).min(1),
});

export type UnknownModels = z.infer<typeof unknownModels>;

/** Returns a message that names the models. */
export function unknownModelsText({ models }: Pick<UnknownModels, "models">): string {
  const names = models.map((id) => `“${id}”`).join(", ");
  return models.length === 1 ? `The model ${names} doesn’t exist.` : `The models ${names} don’t exist.`;
}

/** Returns 400 INVALID_REQUEST that names the field and the models. */
export function unknownModelsProblem(refusal: UnknownModels, { requestId }: { requestId: string }): Response {
  const { param } = refusal;
  return problem("INVALID_REQUEST", {
    requestId,
    detail: `${param}: ${unknownModelsText(refusal)}`,
    members: { param },
  });
}
