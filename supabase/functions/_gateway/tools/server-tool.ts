import type { z } from "zod";

/** A tool that the gateway runs itself: deterministic, and with access only to its arguments and the run's time. */
export type ServerTool<Input extends z.ZodType> = {
  name: string;
  description: string;
  /** JSON Schema of the tool's arguments, for the model. */
  parameters: object;
  /** Schema of the tool's arguments, for the gateway. */
  input: Input;
  /** @throws Error whose message is for the model */
  run: (input: z.infer<Input>, context: ToolContext) => object;
};

export type ToolContext = {
  /** The current time by the database's clock. */
  time: Date;
};
