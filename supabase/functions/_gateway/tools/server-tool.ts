import type { z } from "zod";

/** A tool that the gateway runs itself: deterministic, and without any reach beyond its arguments and the run's time. */
export type ServerTool<Input extends z.ZodType> = {
  name: string;
  description: string;
  /** JSON Schema of its arguments, for the model. */
  parameters: object;
  /** The same for us. */
  input: Input;
  /** @throws Error whose message is meant for the model */
  run: (input: z.infer<Input>, context: ToolContext) => object;
};

export type ToolContext = {
  /** The present moment by the database's clock. */
  time: Date;
};
