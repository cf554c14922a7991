-- Sums of sealed days lack the new counts until ai.roll_up_usage() has made them again. Until then, reports that need
-- details read these days from runs.
update ai.usage_sealed_days set detailed_from = null where singleton;
