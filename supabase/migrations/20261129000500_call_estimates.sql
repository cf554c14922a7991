-- What a call says about its size and its cost beyond bytes, images and audio.
set lock_timeout = '500ms';

alter type ai.run_request
  add attribute input_reads bigint,
  add attribute expected_tokens bigint,
  add attribute hour_writes boolean,
  add attribute is_free boolean;
alter type ai.token_use add attribute hour_writes boolean;
comment on type ai.token_use is
  'The tokens of a call: input by class, and output. hour_writes is true if the input may be cached for an hour.';
comment on column ai.runs.marks is
  'Reasons for an operator to check the run: above_context_window, above_output_limit, implausible, '
  'unattributed_cache_writes, unmeasured_document, unpriced_tier.';
