import type { z } from "zod";

/**
 * A tool that the gateway runs itself. It is deterministic and has access only to its arguments and the run's time.
 */
export type ServerTool<Input extends z.ZodType> = {
  name: string;
  description: string;
  /** JSON Schema of the tool's arguments, which the model receives. */
  parameters: object;
  /** Schema with which the gateway validates the arguments. */
  input: Input;
  /**
   * Runs the tool.
   * @throws Error with a message for the model
   */
  run: (input: z.infer<Input>, context: ToolContext) => object;
};

export type ToolContext = {
  /** The current time of the database's clock. */
  time: Date;
};
