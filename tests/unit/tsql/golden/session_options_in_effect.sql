SELECT @@OPTIONS AS option_bits
