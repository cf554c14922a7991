/** One entry of `platform.steps`, and nothing more. */
export type Step = {
  step: number;
  type: "model" | "tool" | "retry";
  name: string;
  status: "succeeded" | "failed" | "aborted";
  latency_ms: number;
};
