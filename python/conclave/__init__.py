"""Synthetic tables with differential privacy: train on a DataFrame, draw rows, check the proof."""

from .errors import ConclaveError
from .model import Model
from .schema import Column, Schema
from .sdv import schema_from_sdv, schema_to_sdv
from .training import fit
from .verification import Check, Verification, verify

__all__ = ["Check", "Column", "ConclaveError", "Model", "Schema", "Verification", "fit", "schema_from_sdv",
           "schema_to_sdv", "verify"]
