"""What the stock ONNX Runtime package does: conversion to ORT format, sessions, reference vectors."""
